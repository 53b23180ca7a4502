import { queryOptions, type QueryClient } from '@tanstack/react-query';
import { call, data, identityApi, type Catalog } from '~/api/client';

export interface Named {
  id: string;
  name: string;
}
export type Account = Named & { enabled: boolean; description?: string | null };

export const usersQuery = queryOptions({
  queryKey: ['people', 'users'],
  queryFn: async () => (await call<{ users: Account[] }>('GET', '/identity/v3/users')).users.sort((a, b) => a.name.localeCompare(b.name)),
});

export const projectsQuery = queryOptions({
  queryKey: ['people', 'projects'],
  queryFn: async () => (await call<{ projects: Account[] }>('GET', '/identity/v3/projects')).projects.sort((a, b) => a.name.localeCompare(b.name)),
});

export const rolesQuery = queryOptions({
  queryKey: ['people', 'roles'],
  queryFn: async () => (await call<{ roles: Named[] }>('GET', '/identity/v3/roles')).roles,
});

export interface Assignment {
  role: { id: string };
  user?: { id: string };
  scope: { project?: { id: string } };
}

export const assignmentsQuery = queryOptions({
  queryKey: ['people', 'assignments'],
  queryFn: async () => (await call<{ role_assignments: Assignment[] }>('GET', '/identity/v3/role_assignments')).role_assignments,
});

export const quotasOf = (project: string) =>
  queryOptions({
    queryKey: ['people', 'quotas', project],
    queryFn: async () => (await call<Catalog['Quotas']>('GET', `/v1/quotas/${project}`)).quotas,
  });
export const changeQuotas = (project: string, limits: Record<string, number | null>) => call('PUT', `/v1/quotas/${project}`, limits);

export const createUser = (name: string, password: string) => data(identityApi.POST('/v3/users', { body: { user: { name, password } } }));
export const createProject = (name: string) => data(identityApi.POST('/v3/projects', { body: { project: { name } } }));
export const change = (kind: 'users' | 'projects', id: string, by: object) => call('PATCH', `/identity/v3/${kind}/${id}`, { [kind.slice(0, -1)]: by });
export const remove = (kind: 'users' | 'projects', id: string) => call('DELETE', `/identity/v3/${kind}/${id}`);
export const assign = (method: 'PUT' | 'DELETE', project: string, user: string, role: string) => call(method, `/identity/v3/projects/${project}/users/${user}/roles/${role}`);
export const refreshPeople = (queries: QueryClient) => queries.invalidateQueries({ queryKey: ['people'] });
