import { Badge } from '@mantine/core';

const COLORS: Record<string, string> = { running: 'glass', active: 'glass', stopped: 'gray', failed: 'red', unknown: 'orange', queued: 'yellow', expired: 'red', creating: 'blue' };

/** The state of a node, an instance, an image or a ticket. */
export function State({ of }: { of: string | null | undefined }) {
  const state = of ?? 'unknown';
  return (
    <Badge color={COLORS[state] ?? 'gray'} variant="light" radius="sm" tt="none" fw={600}>
      {state}
    </Badge>
  );
}

const UNITS = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];

/** Bytes as people read them. */
export function size(bytes: number | null | undefined): string {
  if (bytes === null || bytes === undefined) return '–';
  let value = bytes;
  let unit = 0;
  while (value >= 1024 && unit < UNITS.length - 1) {
    value /= 1024;
    unit += 1;
  }
  return `${value >= 100 || Number.isInteger(value) ? Math.round(value) : value.toFixed(1)} ${UNITS[unit]}`;
}

export const MIB = 1024 * 1024;
