import { useQuery } from '@tanstack/react-query';
import { useParams } from '@tanstack/react-router';
import { currentSession, environmentQuery, sessionsQuery, type Component } from './queries';

/** The environment of this page as the open session has it. */
export function useShownEnvironment() {
  const { environmentId } = useParams({ strict: false }) as { environmentId: string };
  const sessions = useQuery(sessionsQuery(environmentId));
  const session = currentSession(sessions.data ?? []);
  const shown = useQuery({ ...environmentQuery(environmentId, session?.id), enabled: !sessions.isPending });
  return { environmentId, session, environment: shown.data, components: (shown.data?.services ?? []) as unknown as Component[] };
}
