import { expect, test } from 'vitest';
import { statesAway, statusAway } from './away';

test('an environment is not ready over machines that are not there', () => {
  const states = { a: 'missing', b: 'unknown' };
  const model = (...uuids: (string | null)[]) => [{ '?': { id: 'x' }, servers: { items: uuids.map((uuid) => ({ openstackId: uuid })) } }];
  expect(statusAway(statesAway(model(null, 'c'), states))).toBeUndefined();
  expect(statusAway(statesAway(model('c', 'a'), states))).toBe('machines missing');
  expect(statusAway(statesAway(model('a', 'b'), states))).toBe('machines unknown');
  expect(statusAway(statesAway(undefined, states))).toBeUndefined();
});
