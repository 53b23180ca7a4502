import { describe, expect, it } from 'vitest';
import rule from '../../../tests/secrecy/test_secrecy.py?raw';
import { isSecret, MASK, masked } from '.';

/** The names of a list in the test of the service's rule. */
function listed(name: string): string[] {
  const body = new RegExp(`^${name} = \\(([^)]*)\\)`, 'm').exec(rule)?.[1] ?? '';
  return [...body.matchAll(/"([^"]+)"/g)].map((match) => match[1] ?? '');
}

describe('what is secret', () => {
  it('is what the service says', () => {
    expect(listed('SECRET').length).toBeGreaterThan(10);
    expect(listed('SECRET').filter((name) => !isSecret(name))).toEqual([]);
    expect(listed('PLAIN').filter(isSecret)).toEqual([]);
  });

  it('is masked at any depth; what is empty or a switch stays', () => {
    expect(masked({ name: 'db', password: 'x', pin: { token: 12345, secrets: ['a'], usePassword: true }, list: [{ apiKey: 'k' }, { password: '' }, { password: null }] })).toEqual({
      name: 'db', password: MASK, pin: { token: MASK, secrets: MASK, usePassword: true }, list: [{ apiKey: MASK }, { password: '' }, { password: null }],
    });
  });
});
