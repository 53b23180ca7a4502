import { queryOptions, useQuery } from '@tanstack/react-query';
import { ApiError, call, type Compute } from '~/api/client';
import { environmentQuery, shownStatus, type Judged } from './queries';

const AWAY = new Set(['missing', 'unknown']);

/** The machines of the project that are not there, or of which nothing is known, by uuid. Without nodes there are none. */
export const awayQuery = queryOptions({
  queryKey: ['machines', 'away'],
  queryFn: async () => {
    try {
      const servers = await call<Compute['Server'][]>('GET', '/compute/servers?extras=vms');
      const machines = servers.flatMap((server) => Object.entries(server.vms ?? {}));
      return Object.fromEntries(machines.map(([uuid, vm]) => [uuid, String(vm.state)]).filter(([, state]) => AWAY.has(state ?? '')));
    } catch (error) {
      if (error instanceof ApiError) return {};
      throw error;
    }
  },
  refetchInterval: 15_000,
});

/** The states of a model's machines that are away. */
export function statesAway(model: unknown, states: Record<string, string>): string[] {
  if (typeof model !== 'object' || model === null) return [];
  const inside = Object.values(model).flatMap((one) => statesAway(one, states));
  const uuid = (model as { openstackId?: unknown }).openstackId;
  const own = typeof uuid === 'string' ? states[uuid] : undefined;
  return own === undefined ? inside : [own, ...inside];
}

/** What is said instead of "ready" of an environment whose machines are away. The API's status says how its last deployment ended. */
export function statusAway(found: string[]): string | undefined {
  if (found.includes('unknown')) return 'machines unknown';
  return found.length > 0 ? 'machines missing' : undefined;
}

/** What is said of an environment; its model is read only when a machine of the project is away. */
export function useToldStatus(environment: Judged & { id?: string | undefined }): string {
  const status = shownStatus(environment);
  const states = useQuery(awayQuery).data ?? {};
  const asked = environment.id !== undefined && status === 'ready' && Object.keys(states).length > 0;
  const { data } = useQuery({ ...environmentQuery(environment.id ?? ''), enabled: asked });
  return (asked && statusAway(statesAway(data?.services, states))) || status;
}
