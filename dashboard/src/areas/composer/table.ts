import type { Catalog } from '~/api/client';

export type Column = Catalog['FormColumn'];
export type Row = Record<string, unknown>;

/** A row without anything; the first one is the chosen one. */
export function blank(columns: Column[], first: boolean): Row {
  return Object.fromEntries(columns.map((one) => [one.name, one.type === 'label' ? '' : one.type === 'radio' && first]));
}

/** The rows with another value in one cell; of a radio button's column one row is chosen. */
export function withCell(rows: Row[], index: number, column: Column, value: unknown): Row[] {
  return rows.map((row, place) => {
    if (place === index) return { ...row, [column.name]: value };
    return column.type === 'radio' ? { ...row, [column.name]: false } : row;
  });
}

/** The rows without one; what was chosen in it is chosen in the first. */
export function without(rows: Row[], index: number, columns: Column[]): Row[] {
  const left = rows.filter((_, place) => place !== index);
  const lost = columns.filter((one) => one.type === 'radio' && rows[index]?.[one.name] === true);
  return left.map((row, place) => (place === 0 ? { ...row, ...Object.fromEntries(lost.map((one) => [one.name, true])) } : row));
}
