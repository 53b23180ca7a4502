import { describe, expect, it } from 'vitest';
import { duration, moment, relative } from './times';

describe('moment', () => {
  it('takes moments without a zone as UTC', () => {
    expect(moment('2026-01-31T12:00:00')?.toISOString()).toBe('2026-01-31T12:00:00.000Z');
    expect(moment('2026-01-31T12:00:00+01:00')?.toISOString()).toBe('2026-01-31T11:00:00.000Z');
  });

  it('has nothing for nothing', () => {
    expect(moment(null)).toBeNull();
    expect(moment('soon')).toBeNull();
  });
});

describe('relative', () => {
  const now = Date.parse('2026-01-31T12:00:00Z');
  const said = (seconds: number) => relative(new Date(now + seconds * 1000), now, 'en');

  it('uses the largest unit that fits', () => {
    expect(said(-3)).toBe('now');
    expect(said(-45)).toBe('45 seconds ago');
    expect(said(-119)).toBe('1 minute ago');
    expect(said(-7200)).toBe('2 hours ago');
    expect(said(86_400)).toBe('tomorrow');
  });

  it('speaks other languages', () => {
    expect(relative(new Date(now - 3_600_000), now, 'de')).toBe('vor 1 Stunde');
  });
});

describe('duration', () => {
  it('has at most two units, and no empty ones', () => {
    expect(duration(0)).toBe('0 s');
    expect(duration(12.4)).toBe('12 s');
    expect(duration(3_840)).toBe('1 h 4 min');
    expect(duration(3_600)).toBe('1 h');
    expect(duration(90_061)).toBe('1 d 1 h');
  });
});
