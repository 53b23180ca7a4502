import { describe, expect, it } from 'vitest';
import { allowed, letGo, withEach, type Act } from './many';

const one = (name: string, status: string, version = 1) => ({ id: name, name, status, version });

describe('allowed', () => {
  it('follows the status of the environment', () => {
    const can = (status: string, version = 1, has_changes?: boolean) => (['deploy', 'destroy', 'abandon'] as Act[]).filter((act) => allowed(act, { status, version, has_changes }));
    expect(can('ready')).toEqual(['destroy', 'abandon']);
    expect(can('ready', 0)).toEqual(['destroy']);
    expect(can('pending')).toEqual(['deploy', 'destroy']);
    expect(can('pending', 1, true)).toEqual(['deploy', 'destroy']);
    expect(can('pending', 1, false)).toEqual(['destroy', 'abandon']);
    expect(can('pending', 0, false)).toEqual(['destroy']);
    expect(can('deploying')).toEqual(['abandon']);
    expect(can('deleting')).toEqual(['abandon']);
    expect(can('deploy failure', 0)).toEqual(['deploy', 'destroy', 'abandon']);
    expect(can('delete failure')).toEqual(['destroy', 'abandon']);
  });
});

describe('withEach', () => {
  it('skips what is not allowed or has nothing to do, and goes on after a failure', async () => {
    const asked: string[] = [];
    const outcome = await withEach([one('busy', 'deploying'), one('broken', 'pending'), one('others', 'pending'), one('mine', 'deploy failure')], 'deploy', async ({ name }) => {
      asked.push(name);
      if (name === 'broken') throw new Error('no');
      return name !== 'others';
    });
    expect(asked).toEqual(['broken', 'others', 'mine']);
    expect(outcome).toEqual({ done: ['mine'], skipped: ['busy', 'others'], failed: [['broken', new Error('no')]] });
  });
});

describe('letGo', () => {
  it('keeps what earlier answers let go', () => {
    expect(letGo(['machine web-1'], ['address 192.0.2.1', 'machine web-1'])).toEqual(['machine web-1', 'address 192.0.2.1']);
  });
});
