// Who is signed in. The token never reaches this page: the cookie that has it cannot be read by scripts.
import { queryOptions, useSuspenseQuery } from '@tanstack/react-query';
import { CSRF, data, sessionApi } from '~/api/client';

const params = { header: CSRF };

export const sessionQuery = queryOptions({
  queryKey: ['session'],
  queryFn: () => currentSession(),
  staleTime: 60_000,
  retry: false,
});

/** Rules of the policy that pages ask for (dashboard-and-cli.md A10). */
export type Rule =
  | 'member_api'
  | 'create_environment'
  | 'update_environment'
  | 'delete_environment'
  | 'deploy_session'
  | 'update_services'
  | 'execute_action'
  | 'list_environments'
  | 'list_deployments'
  | 'list_deployments_all_environments'
  | 'list_env_templates'
  | 'create_env_template'
  | 'clone_env_template'
  | 'get_package'
  | 'upload_package'
  | 'download_package'
  | 'modify_package'
  | 'delete_package'
  | 'publicize_package'
  | 'get_category'
  | 'add_category'
  | 'delete_category'
  | 'mark_image'
  | 'remove_image_metadata'
  | 'update_quotas';

export function useSession() {
  const { data: session } = useSuspenseQuery(sessionQuery);
  const allowed = new Set(session.allowed);
  return {
    ...session,
    isAdmin: session.roles.includes('admin'),
    /** Whether the policy has a rule of this name that lets the user through. */
    may: (rule: Rule) => allowed.has(rule),
  };
}

export const currentSession = () => data(sessionApi.GET('/api/session'));
export const signIn = (user: string, password: string, project?: string) =>
  data(sessionApi.POST('/api/session', { params, body: { user, password, ...(project ? { project } : {}) } }));
export const signInByLink = (link: string) => data(sessionApi.POST('/api/session', { params, body: { link } }));
export const changeProject = (project: string) => data(sessionApi.PUT('/api/session', { params, body: { project } }));
export const signOut = () => sessionApi.DELETE('/api/session', { params });
