import { queryOptions } from '@tanstack/react-query';
import { call, computeApi, data, type Catalog, type Compute } from '~/api/client';

export type Server = Compute['Server'];
export type Vm = Compute['Vm'];
export type Image = Compute['Image'];
export type Network = Compute['Network'];
export type Subnet = Compute['Subnet'];
export type FloatingAddress = Compute['FloatingAddress'];
export type Port = Compute['Port'];
export type Ticket = Compute['Ticket'];
export type Task = Compute['Task'];

const OFTEN = 5_000;

/** Nodes with the instances of the project; operators see every node and every instance. */
export const serversQuery = queryOptions({
  queryKey: ['machines', 'servers'],
  queryFn: () => call<Server[]>('GET', '/compute/servers?extras=vms,memory,disk,capacity,sysinfo'),
  refetchInterval: OFTEN,
});

export const imagesQuery = queryOptions({
  queryKey: ['machines', 'images'],
  queryFn: () => data(computeApi.GET('/images')) as Promise<Image[]>,
  refetchInterval: OFTEN,
});

export const networksQuery = queryOptions({
  queryKey: ['machines', 'networks'],
  queryFn: async () => {
    const [networks, subnets, addresses, ports] = await Promise.all([
      call<Network[]>('GET', '/compute/networks'),
      call<Subnet[]>('GET', '/compute/subnets'),
      call<FloatingAddress[]>('GET', '/compute/floating-ips'),
      call<Port[]>('GET', '/compute/ports'),
    ]);
    return { networks, subnets, addresses, ports };
  },
  refetchInterval: 15_000,
});

export const ticketsQuery = queryOptions({
  queryKey: ['machines', 'tickets'],
  queryFn: () => call<Ticket[]>('GET', '/compute/tickets'),
  refetchInterval: OFTEN,
});

/** What the project has and may have, by resource. */
export const quotasQuery = queryOptions({
  queryKey: ['machines', 'quotas'],
  queryFn: async () => (await call<Catalog['Quotas']>('GET', '/v1/quotas')).quotas,
  refetchInterval: 15_000,
});

/** The instances on all nodes, those of one node together. */
export function instancesOf(servers: Server[]): (Vm & { server: Server })[] {
  return servers.flatMap((server) => Object.entries(server.vms ?? {}).map(([uuid, vm]) => ({ ...vm, uuid: vm.uuid ?? uuid, server })));
}

/** Whether it is a virtual machine, which has a screen; not a container. */
export const isVirtual = (vm: Vm | undefined) => vm?.brand === 'kvm' || vm?.brand === 'bhyve';

const pathOf = (vm: Vm & { server: Server }) => `/compute/servers/${encodeURIComponent(vm.server.uuid ?? '')}/vms/${encodeURIComponent(vm.uuid ?? '')}`;

/** Ask a node for a change of an instance, and wait until it has ended. Raises what the node answered. */
export async function changeInstance(vm: Vm & { server: Server }, what: 'start' | 'stop' | 'reboot' | 'destroy'): Promise<void> {
  const started = what === 'destroy' ? await call<{ id: string }>('DELETE', pathOf(vm)) : await call<{ id: string }>('POST', `${pathOf(vm)}/${what}`, {});
  await ended(started.id);
}

async function ended(id: string): Promise<void> {
  const task = await call<Task>('GET', `/compute/tasks/${encodeURIComponent(id)}/wait`);
  if (task.status === 'failure') throw new Error(failureOf(task));
}

export interface Snapshot {
  name: string;
  created_at?: string;
}

export const snapshotsQuery = (vm: Vm & { server: Server }) =>
  queryOptions({ queryKey: ['machines', 'snapshots', vm.uuid], queryFn: async () => (await call<{ snapshots?: Snapshot[] | null }>('GET', pathOf(vm))).snapshots ?? [] });

/** Take a snapshot, go back to one or delete one, and wait until that has ended. */
export async function changeSnapshot(vm: Vm & { server: Server }, what: 'take' | 'rollback' | 'delete', name: string): Promise<void> {
  const path = `${pathOf(vm)}/snapshots`;
  const one = `${path}/${encodeURIComponent(name)}`;
  const started = await (what === 'take' ? call<{ id: string }>('PUT', path, { snapshot_name: name }) : what === 'rollback' ? call<{ id: string }>('PUT', `${one}/rollback`, {}) : call<{ id: string }>('DELETE', one));
  await ended(started.id);
}

/** Destroy an instance, and the ports that were made with it; other ports become free. */
export async function destroyInstance(vm: Vm & { server: Server }, ports: Port[]): Promise<void> {
  await changeInstance(vm, 'destroy');
  // 'vetro vm create' calls the ports it makes NAME-net0, NAME-net1 and so on.
  const made = (name: string) => name.startsWith(`${vm.alias}-net`) && /-net[0-9]+$/.test(name);
  for (const port of ports.filter((one) => one.device_uuid === vm.uuid && made(one.name))) {
    await call('DELETE', `/compute/ports/${port.uuid}`);
  }
}

function failureOf(task: Task): string {
  const error = (task.result as { error?: unknown } | null | undefined)?.error;
  return typeof error === 'string' && error ? error : `${task.task}: ${task.status}`;
}
