// The graph of a model: its components and what they contain, and who refers to whom.
import { isSecret } from '~/secrecy';
import type { Component } from '../environment/queries';

export interface TopologyNode {
  id: string;
  name: string;
  type: string;
  kind: 'environment' | 'component' | 'server' | 'network' | 'object';
  /** Scalar properties to show; secrets are left out. */
  facts: [string, string][];
  addresses: string[];
  depth: number;
}

export interface TopologyEdge {
  from: string;
  to: string;
  kind: 'contains' | 'refers';
}

export interface Topology {
  nodes: TopologyNode[];
  edges: TopologyEdge[];
}

const SERVER = /Instance|Server|Machine|HostInstance/;
const NETWORK = /Network/;
const MAX_FACT = 120;
/** The network outside, where floating addresses of machines are. */
const EXTERNAL = 'External_Network';

interface ModelObject {
  '?': { id: string; type: string; name?: string };
  name?: unknown;
  [property: string]: unknown;
}

const isObject = (value: unknown): value is ModelObject => typeof value === 'object' && value !== null && typeof (value as { '?'?: { id?: unknown } })['?'] === 'object' && typeof (value as ModelObject)['?']?.id === 'string';

/** Nodes in the order of the model; an edge for each containment and each reference between nodes. */
export function topologyOf(environment: { id: string; name: string }, components: Component[]): Topology {
  const nodes: TopologyNode[] = [{ id: environment.id, name: environment.name, type: 'io.murano.Environment', kind: 'environment', facts: [], addresses: [], depth: 0 }];
  const edges: TopologyEdge[] = [];
  const references: [string, string][] = [];
  const outside: string[] = [];
  const seen = new Set([environment.id]);

  const visit = (object: ModelObject, owner: string, path: string, depth: number) => {
    const { id, type, name } = object['?'];
    if (seen.has(id)) return;
    seen.add(id);
    const shortType = type.split('/')[0] ?? type;
    const node: TopologyNode = {
      id,
      name: name || (typeof object.name === 'string' && object.name) || path || (shortType.split('.').pop() ?? id),
      type: shortType,
      kind: depth === 1 ? 'component' : SERVER.test(shortType) ? 'server' : NETWORK.test(shortType) ? 'network' : 'object',
      facts: [],
      addresses: [],
      depth,
    };
    nodes.push(node);
    edges.push({ from: owner, to: id, kind: 'contains' });
    const { instance } = object as { instance?: { assignFloatingIp?: unknown } | null };
    if (instance?.assignFloatingIp === true) outside.push(id);
    for (const [property, value] of Object.entries(object)) {
      if (property === '?') continue;
      walk(value, id, property, depth, node);
    }
  };

  const walk = (value: unknown, owner: string, path: string, depth: number, node: TopologyNode) => {
    if (isObject(value)) return visit(value, owner, path, depth + 1);
    if (Array.isArray(value)) {
      const scalars = value.filter((one) => typeof one !== 'object');
      if (/ipAddresses|floatingIpAddress/.test(path)) node.addresses.push(...scalars.map(String));
      else if (scalars.length === value.length && scalars.length > 0) fact(node, path, scalars.join(', '));
      return value.forEach((one, index) => walk(one, owner, `${path}[${index}]`, depth, node));
    }
    if (typeof value === 'object' && value !== null) return Object.entries(value).forEach(([name, one]) => walk(one, owner, `${path}.${name}`, depth, node));
    if (typeof value === 'string' && /^[0-9a-f]{32}$/.test(value)) references.push([owner, value]);
    else if (/floatingIpAddress$/.test(path) && typeof value === 'string' && value) node.addresses.push(value);
    else if (value !== null && value !== undefined && value !== '' && !path.includes('[')) fact(node, path, String(value));
  };

  for (const one of components) visit(one as ModelObject, environment.id, '', 1);
  for (const [from, to] of references) if (seen.has(to) && from !== to) edges.push({ from, to, kind: 'refers' });
  if (outside.length > 0) {
    nodes.push({ id: EXTERNAL, name: 'External network', type: '', kind: 'network', facts: [], addresses: [], depth: 1 });
    edges.push({ from: environment.id, to: EXTERNAL, kind: 'contains' }, ...outside.map((from) => ({ from, to: EXTERNAL, kind: 'refers' as const })));
  }
  return { nodes, edges };
}

function fact(node: TopologyNode, name: string, value: string) {
  if (isSecret(name)) return;
  node.facts.push([name, value.length > MAX_FACT ? `${value.slice(0, MAX_FACT)}…` : value]);
}

export interface Placed {
  id: string;
  x: number;
  y: number;
}

/** A tidy tree from left to right: each node beside the middle of what it contains. */
export function layout({ nodes, edges }: Topology, width = 270, height = 84): Map<string, Placed> {
  const children = new Map<string, string[]>();
  for (const { from, to, kind } of edges) if (kind === 'contains') children.set(from, [...(children.get(from) ?? []), to]);
  const placed = new Map<string, Placed>();
  let row = 0;
  const place = (id: string, depth: number): number => {
    const below = children.get(id) ?? [];
    const rows = below.map((one) => place(one, depth + 1));
    const y = rows.length > 0 ? ((rows[0] ?? 0) + (rows[rows.length - 1] ?? 0)) / 2 : row++ * height;
    placed.set(id, { id, x: depth * width, y });
    return y;
  };
  const root = nodes[0];
  if (root) place(root.id, 0);
  return placed;
}
