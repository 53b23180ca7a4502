import { beforeEach, describe, expect, it, vi } from 'vitest';
import { lastTab, opensAt, rememberTab } from './tab';

const kept = new Map<string, string>();
vi.stubGlobal('localStorage', { getItem: (key: string) => kept.get(key) ?? null, setItem: (key: string, value: string) => kept.set(key, value) });

describe('the tab of environments', () => {
  beforeEach(() => kept.clear());

  it('is the one that this user looked at last', () => {
    rememberTab('ann', 'topology');
    expect(lastTab('ann')).toBe('topology');
    expect(lastTab('bob')).toBe('components');
    expect(opensAt('ann', { version: 2 })).toBe('/environments/$environmentId/topology');
  });

  it('is the components of an environment that was never deployed, and of one who has chosen nothing', () => {
    rememberTab('ann', 'log');
    expect(opensAt('ann', { version: 0 })).toBe('/environments/$environmentId');
    expect(opensAt('bob', { version: 1 })).toBe('/environments/$environmentId');
  });

  it('is none that there is not', () => {
    kept.set('vetro.tab.ann', '../../people');
    expect(lastTab('ann')).toBe('components');
  });
});
