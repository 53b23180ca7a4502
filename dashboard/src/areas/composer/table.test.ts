import { expect, test } from 'vitest';
import { blank, withCell, without } from './table';

const name = { name: 'name', type: 'label', title: 'Name' };
const sync = { name: 'sync', type: 'checkbox', title: 'Sync' };
const main = { name: 'main', type: 'radio', title: 'Primary' };
const columns = [name, sync, main];
const first = { name: 'a', sync: true, main: true };
const rows = [first, { name: 'b', sync: false, main: false }];

test('the first row that is added is the chosen one', () => {
  expect(blank(columns, true)).toEqual({ name: '', sync: false, main: true });
  expect(blank(columns, false)).toEqual({ name: '', sync: false, main: false });
});

test('a radio button of one row is taken from the others, a mark is not', () => {
  expect(withCell(rows, 1, main, true).map((row) => row['main'])).toEqual([false, true]);
  expect(withCell(rows, 1, sync, true).map((row) => row['sync'])).toEqual([true, true]);
});

test('what was chosen in a row that is removed is chosen in the first', () => {
  expect(without(rows, 0, columns)).toEqual([{ name: 'b', sync: false, main: true }]);
  expect(without(rows, 1, columns)).toEqual([first]);
  expect(without([first], 0, columns)).toEqual([]);
});
