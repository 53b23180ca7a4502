import { expect, test } from 'vitest';
import { moved, textsOf } from './order';

test('a component goes one place up or down', () => {
  expect(moved(['a', 'b', 'c'], 2, -1)).toEqual(['a', 'c', 'b']);
  expect(moved(['a', 'b', 'c'], 0, 1)).toEqual(['b', 'a', 'c']);
});

test('a value that is one id, or none, is a list as well', () => {
  expect(textsOf(['x', 'y'])).toEqual(['x', 'y']);
  expect([textsOf('x'), textsOf(null), textsOf('')]).toEqual([['x'], [], []]);
});
