// What a form's machines would take of the project's quotas (dashboard-and-cli.md A3).
import type { Catalog } from '~/api/client';
import type { Component } from '~/areas/environment/queries';

export interface Size {
  vcpus: number;
  memory: number;
}

export interface Amounts {
  instances: number;
  cores: number;
  memory: number;
}

export const NONE: Amounts = { instances: 0, cores: 0, memory: 0 };

export const plus = (sum: Amounts, size: Size | undefined): Amounts => ({ instances: sum.instances + 1, cores: sum.cores + (size?.vcpus ?? 0), memory: sum.memory + (size?.memory ?? 0) });

/** The sizes that fields for a flavor offer, by name. */
export function sizesOf(fields: Catalog['FormField'][]): Map<string, Size> {
  const sizes = new Map<string, Size>();
  for (const field of fields) for (const { value, size } of field.choices ?? []) if (size && typeof value === 'string') sizes.set(value, size as Size);
  return sizes;
}

/** The machines among the objects of components, each with a size as far as it is known. */
export function machinesOf(components: Component[], sizes: ReadonlyMap<string, Size>): Amounts {
  let sum = NONE;
  const walk = (value: unknown): void => {
    if (typeof value !== 'object' || value === null) return;
    if (Array.isArray(value)) return value.forEach(walk);
    const { flavor } = value as { flavor?: unknown };
    if ('?' in value && typeof flavor === 'string') sum = plus(sum, sizes.get(flavor));
    Object.values(value).forEach(walk);
  };
  components.forEach(walk);
  return sum;
}
