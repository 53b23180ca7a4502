/** What a field of several components has, as ids in their order. */
export const textsOf = (value: unknown): string[] => (Array.isArray(value) ? value.map(String) : value === null || value === undefined || value === '' ? [] : [String(value)]);

/** The list with the one at a place a step nearer to its beginning or end. */
export function moved<One>(list: readonly One[], place: number, by: -1 | 1): One[] {
  const made = [...list];
  const [one] = made.splice(place, 1);
  if (one !== undefined) made.splice(place + by, 0, one);
  return made;
}
