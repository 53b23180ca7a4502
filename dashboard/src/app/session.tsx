// Who is signed in. The token never reaches this page: the cookie that has it cannot be read by scripts.
import { queryOptions, useSuspenseQuery } from '@tanstack/react-query';
import { CSRF, data, sessionApi } from '~/api/client';

const params = { header: CSRF };

export const sessionQuery = queryOptions({
  queryKey: ['session'],
  queryFn: () => data(sessionApi.GET('/api/session')),
  staleTime: 60_000,
  retry: false,
});

export function useSession() {
  const { data: session } = useSuspenseQuery(sessionQuery);
  return { ...session, isAdmin: session.roles.includes('admin') };
}

export const signIn = (user: string, password: string, project?: string) =>
  data(sessionApi.POST('/api/session', { params, body: { user, password, ...(project ? { project } : {}) } }));
export const signInByLink = (link: string) => data(sessionApi.POST('/api/session', { params, body: { link } }));
export const changeProject = (project: string) => data(sessionApi.PUT('/api/session', { params, body: { project } }));
export const signOut = () => sessionApi.DELETE('/api/session', { params });
