import { expect, it } from 'vitest';
import { directionOf } from './index';

it('is right to left for the languages that are written so', () => {
  expect(['en', 'de', 'ar', 'he-IL', 'fa'].map(directionOf)).toEqual(['ltr', 'ltr', 'rtl', 'rtl', 'rtl']);
});
