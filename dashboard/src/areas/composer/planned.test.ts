import { describe, expect, it } from 'vitest';
import type { Catalog } from '~/api/client';
import type { Component } from '~/areas/environment/queries';
import { machinesOf, NONE, plus, sizesOf } from './planned';

const field = { choices: [{ value: 'm1.small', label: 'small', size: { vcpus: 1, memory: 1024, disk: 10 } }, { value: 'odd', label: 'odd' }] } as unknown as Catalog['FormField'];

describe('what machines take of quotas', () => {
  const sizes = sizesOf([field]);

  it('is the sizes that the form knows', () => {
    expect([...sizes]).toEqual([['m1.small', { vcpus: 1, memory: 1024, disk: 10 }]]);
    expect(plus(NONE, sizes.get('m1.small'))).toEqual({ instances: 1, cores: 1, memory: 1024 });
  });

  it('counts every machine of components, one of an unknown size as a machine', () => {
    const machine = (flavor: string) => ({ '?': { id: flavor, type: 'io.murano.resources.LinuxMuranoInstance' }, flavor });
    const components = [{ '?': { id: 'a', type: 'a.B' }, instance: machine('m1.small'), nodes: [machine('m1.small'), machine('huge')] }] as unknown as Component[];
    expect(machinesOf(components, sizes)).toEqual({ instances: 3, cores: 2, memory: 2048 });
    expect(machinesOf([], sizes)).toEqual(NONE);
  });
});
