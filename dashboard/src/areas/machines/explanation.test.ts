import { expect, test } from 'vitest';
import { filtersOf } from './explanation';

test('a filter shows who it removed, those of one reason together, and what held for all', () => {
  const filters = filtersOf({
    chosen: undefined,
    problem: '',
    unseen: { x: 'is not set up' },
    steps: [
      { step: 'Initial', remaining: ['a', 'b', 'c'] },
      { step: 'Reserved', remaining: ['a', 'b', 'c'], reasons: { skip: 'not asked' } },
      { step: 'Memory', remaining: ['c'], reasons: { a: 'too little', b: 'too little' } },
    ],
  });
  expect(filters.map((one) => [one.name, one.left.length, one.removed, one.remark])).toEqual([
    ['Initial', 3, [{ reason: 'is not set up', servers: ['x'] }], ''],
    ['Reserved', 3, [], 'not asked'],
    ['Memory', 1, [{ reason: 'too little', servers: ['a', 'b'] }], ''],
  ]);
});
