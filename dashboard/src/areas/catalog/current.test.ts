import { expect, it, vi } from 'vitest';
import { currentOf, rememberCurrent } from './current';
import { nextName } from './making';

const kept = new Map<string, string>();
vi.stubGlobal('localStorage', { getItem: (key: string) => kept.get(key) ?? null, setItem: (key: string, value: string) => kept.set(key, value) });

it('adds to the environment that was chosen last in a project, as long as it is there, else to the first', () => {
  const environments = [{ id: 'a' }, { id: 'b' }];
  expect(currentOf('p', environments)).toBe('a');
  rememberCurrent('p', 'b');
  expect(currentOf('p', environments)).toBe('b');
  expect(currentOf('q', environments)).toBe('a');
  expect(currentOf('p', [{ id: 'a' }])).toBe('a');
  expect(currentOf('p', [])).toBeUndefined();
});

it('names a quick environment one higher than the highest', () => {
  expect(nextName([])).toBe('quick-env-1');
  expect(nextName(['quick-env-2', 'quick-env-10', 'quick-env-x', 'shop'])).toBe('quick-env-11');
});
