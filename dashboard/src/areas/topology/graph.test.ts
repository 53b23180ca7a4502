import { describe, expect, it } from 'vitest';
import type { Component } from '../environment/queries';
import { layout, topologyOf } from './graph';

const environment = { id: 'e'.repeat(32), name: 'shop' };
const web = 'a'.repeat(32);
const machine = 'b'.repeat(32);
const db = 'c'.repeat(32);

const components = [
  {
    '?': { id: web, type: 'org.acme.Web/1.0.0@org.acme', name: 'web' },
    port: 80,
    adminPassword: 'hidden',
    hosts: ['a', 'b'],
    database: db,
    instance: { '?': { id: machine, type: 'io.murano.resources.LinuxMuranoInstance' }, ipAddresses: ['10.0.0.5'], floatingIpAddress: '192.0.2.1' },
  },
  { '?': { id: db, type: 'org.acme.Db' }, name: 'data' },
] as unknown as Component[];

describe('topologyOf', () => {
  const graph = topologyOf(environment, components);
  const node = (id: string) => graph.nodes.find((one) => one.id === id);

  it('has a node for the environment, each component and each object in it', () => {
    expect(graph.nodes.map((one) => [one.kind, one.name])).toEqual([
      ['environment', 'shop'],
      ['component', 'web'],
      ['server', 'instance'],
      ['component', 'data'],
    ]);
  });

  it('draws containment and references between nodes', () => {
    expect(graph.edges).toContainEqual({ from: web, to: machine, kind: 'contains' });
    expect(graph.edges).toContainEqual({ from: web, to: db, kind: 'refers' });
  });

  it('shows scalars, joins lists, and leaves secrets out', () => {
    expect(node(web)?.facts).toEqual([
      ['port', '80'],
      ['hosts', 'a, b'],
    ]);
    expect(node(machine)?.addresses).toEqual(['10.0.0.5', '192.0.2.1']);
  });

  it('shows the network outside when a machine gets an address there', () => {
    const reached = topologyOf(environment, [{ ...components[0], instance: { '?': { id: machine, type: 'a.Instance' }, assignFloatingIp: true } }] as unknown as Component[]);
    expect(reached.nodes.map((one) => one.name)).toContain('External network');
    expect(reached.edges).toContainEqual({ from: web, to: 'External_Network', kind: 'refers' });
    expect(graph.nodes.map((one) => one.name)).not.toContain('External network');
  });

  it('visits an object once, however often the model has it', () => {
    const twice = [...components, ...components];
    expect(topologyOf(environment, twice).nodes).toHaveLength(4);
  });

  it('cuts long values', () => {
    const long = topologyOf(environment, [{ '?': { id: web, type: 'a.B' }, text: 'x'.repeat(500) }] as unknown as Component[]);
    expect(long.nodes[1]?.facts[0]?.[1]).toHaveLength(121);
  });
});

describe('layout', () => {
  it('puts no two nodes of a column on one place, also of a thousand', () => {
    const many = Array.from({ length: 1000 }, (_, index) => ({ '?': { id: String(index).padStart(32, '0'), type: 'a.B' } })) as unknown as Component[];
    const graph = topologyOf(environment, many);
    const places = layout(graph);
    expect(places.size).toBe(1001);
    expect(new Set([...places.values()].map(({ x, y }) => `${x},${y}`)).size).toBe(1001);
  });
});
