import { queryOptions, type QueryClient } from '@tanstack/react-query';
import { catalogApi, data, type Catalog } from '~/api/client';
import { unlessLive } from '~/api/live';

export type Environment = Catalog['Environment'];
export type ListedEnvironment = Catalog['ListedEnvironment'];
export type Deployment = Catalog['Deployment'];
export type Report = Catalog['Report'];
export type OpenedSession = Catalog['OpenedSession'];

/** One object of a model: its header is `?`. */
export interface Component {
  '?': {
    id: string;
    type: string;
    status?: string;
    name?: string;
    _actions?: Record<string, Action>;
    [more: string]: unknown;
  };
  name?: string;
  [property: string]: unknown;
}

export interface Action {
  name: string;
  enabled: boolean;
  title?: string;
  arguments?: Record<string, unknown>;
}

export interface Change {
  change: 'added' | 'changed' | 'removed';
  application: string;
  id: string;
  type?: string;
  properties?: string[];
}

/** An environment has applications of packages, or flat services of version 0.3. */
export const hasServices = (environment: { model_kind?: string }) => environment.model_kind === 'workflow';

/** Flat services have `id` and `type` beside their attributes: with a header they are shown as components are. */
export function withHeader(service: Record<string, unknown>, kind = 'service'): Component {
  if (service['?']) return service as Component;
  const { id = '', type = kind, name = '', units, ...more } = service;
  const inside = Array.isArray(units) ? { units: (units as Record<string, unknown>[]).map((unit) => withHeader(unit, 'unit')) } : {};
  return { '?': { id: String(id), type: String(type), name: String(name || type) }, name: String(name), ...more, ...inside };
}

const IN_PROGRESS = new Set(['deploying', 'deleting']);

/** What the status of an environment is said by, in the list and on its own page. */
export interface Judged {
  status: string;
  version: number;
  has_changes?: boolean;
}

/** What a person calls the status (A2): an open session without changes is nothing to deploy, and what was never deployed is new. */
export function shownStatus({ status, version, has_changes }: Judged): string {
  const known = status === 'pending' && has_changes === false ? 'ready' : status;
  return known === 'ready' && version === 0 ? 'new' : known;
}

export const isBusy = (status: string) => IN_PROGRESS.has(status);

export const nameOf = (component: Component) => component['?'].name ?? component.name ?? component['?'].type.split('.').pop() ?? component['?'].id;

/** Where a form keeps the package's display name in the model (packages-and-forms.md B8). */
const STORED = '_26411a1861294160833743e45d0eaad9';

/** The display name of a component's package, as far as the model has it. */
export function packageNameOf(component: Component): string {
  const stored = (component['?'] as Record<string, unknown>)[STORED] as { name?: unknown } | undefined;
  return typeof stored?.name === 'string' ? stored.name : '';
}

/** The action that a deployment ran; none when it deployed or deleted. */
export function actionOf(deployment: Deployment): string | undefined {
  const method = (deployment.action as { method?: unknown } | null)?.method;
  return typeof method === 'string' && method !== 'deploy' ? method : undefined;
}

/** The components that a deployment had; descriptions that are not what they should be have none. */
export function componentsOf(deployment: Deployment | undefined): Component[] {
  const services = (deployment?.description as { services?: unknown } | null | undefined)?.services;
  if (!Array.isArray(services)) return [];
  return services.filter((one) => typeof one === 'object' && one !== null).map((one) => withHeader(one as Record<string, unknown>));
}

/** A component without what the service adds when it shows one. */
export function asGiven(component: Component): Component {
  const { status: _status, _actions, ...header } = component['?'];
  return { ...component, '?': header };
}

export const environmentsQuery = queryOptions({
  queryKey: ['environments'],
  queryFn: async () => (await data(catalogApi.GET('/v1/environments'))).environments,
  refetchInterval: (query) => unlessLive(query.state.data?.some((one) => isBusy(one.status)) ? 2_000 : 15_000),
});

/** The networks that a new environment can join. */
export const joinableQuery = queryOptions({
  queryKey: ['joinable networks'],
  queryFn: async () => (await data(catalogApi.GET('/v1/networks'))).networks,
  retry: false,
});

/** Sessions with changes that wait; the newest of one's own is what the pages show. */
export const sessionsQuery = (id: string) =>
  queryOptions({
    queryKey: ['environment', id, 'sessions'],
    queryFn: async () => (await data(catalogApi.GET('/v1/environments/{environment_id}/sessions', { params: { path: { environment_id: id } } }))).sessions,
    refetchInterval: () => unlessLive(10_000),
  });

export const leakedQuery = (id: string) =>
  queryOptions({
    queryKey: ['environment', id, 'leaked'],
    queryFn: async () => (await data(catalogApi.GET('/v1/environments/{environment_id}/leaked', { params: { path: { environment_id: id } } }))).leaked,
  });

export const currentSession = (sessions: OpenedSession[]) => sessions.filter((one) => one.own && !one.overtaken && one.state === 'opened').sort((a, b) => b.created.localeCompare(a.created))[0];

export const changesOf = (session: OpenedSession | undefined) => (session && Array.isArray(session.changes) ? (session.changes as Change[]) : []);

export const environmentQuery = (id: string, session?: string) =>
  queryOptions({
    queryKey: ['environment', id, 'shown', session ?? ''],
    queryFn: async () => {
      const shown = await data(catalogApi.GET('/v1/environments/{environment_id}', { params: { path: { environment_id: id }, header: session ? { 'X-Configuration-Session': session } : {} } }));
      const services = (shown.services as unknown as Record<string, unknown>[]).map((one) => withHeader(one));
      return { ...shown, services: services as unknown as typeof shown.services };
    },
    // A session that is opened or ends is another question about the same environment: until it is answered its page
    // stays as it is, with the dialogs on it and what is typed in them.
    placeholderData: (before, asked) => (asked?.queryKey[1] === id ? before : undefined),
    refetchInterval: (query) => unlessLive(query.state.data && isBusy(query.state.data.status) ? 2_000 : 15_000),
  });

export const deploymentsQuery = (id: string) =>
  queryOptions({
    queryKey: ['environment', id, 'deployments'],
    queryFn: async () => (await data(catalogApi.GET('/v1/environments/{environment_id}/deployments', { params: { path: { environment_id: id } } }))).deployments,
    refetchInterval: (query) => unlessLive(query.state.data?.some((one) => !one.finished) ? 3_000 : 30_000),
  });

export const statusesQuery = (id: string) =>
  queryOptions({
    queryKey: ['environment', id, 'statuses'],
    queryFn: async () =>
      (await data(catalogApi.GET('/v1/environments/{environment_id}/lastStatus', { params: { path: { environment_id: id } } }))) as unknown as { lastStatuses: Record<string, { text: string; level: string; created: string } | null> },
    refetchInterval: () => unlessLive(10_000),
  });

/**
 * The session that a form writes into, from when it is opened to when it is left.
 *
 * Not below the environment's key: the form would become another one whenever the environment is read anew.
 */
export const ensuredQuery = (queries: QueryClient, id: string) => queryOptions({ queryKey: ['ensured session', id], queryFn: () => ensureSession(queries, id), staleTime: Infinity, gcTime: 0 });

/** The open session, or a new one. */
export async function ensureSession(queries: QueryClient, id: string): Promise<string> {
  const known = currentSession(await queries.fetchQuery({ ...sessionsQuery(id), staleTime: 0 }));
  if (known) return known.id;
  return (await data(catalogApi.POST('/v1/environments/{environment_id}/configure', { params: { path: { environment_id: id } } }))).id;
}

export const refreshEnvironment = (queries: QueryClient, id: string) => Promise.all([queries.invalidateQueries({ queryKey: ['environment', id] }), queries.invalidateQueries({ queryKey: ['environments'] })]);
