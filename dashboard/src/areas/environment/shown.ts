import { useQuery } from '@tanstack/react-query';
import { useParams } from '@tanstack/react-router';
import { currentSession, environmentQuery, isBusy, sessionsQuery, type Component } from './queries';

/** An environment as the open session has it; while it is deployed, as that deployment has it (A2). */
export function useEnvironment(environmentId: string) {
  const sessions = useQuery(sessionsQuery(environmentId));
  const session = currentSession(sessions.data ?? []);
  const mine = useQuery({ ...environmentQuery(environmentId, session?.id), enabled: !sessions.isPending });
  const holder = mine.data && isBusy(mine.data.status) ? (mine.data.acquired_by ?? undefined) : undefined;
  const held = useQuery({ ...environmentQuery(environmentId, holder), enabled: holder !== undefined && holder !== session?.id, retry: false });
  return { sessions, session, shown: holder !== undefined && held.data ? held : mine };
}

/** The environment of this page. */
export function useShownEnvironment() {
  const { environmentId } = useParams({ strict: false }) as { environmentId: string };
  const { session, shown } = useEnvironment(environmentId);
  return { environmentId, session, environment: shown.data, components: (shown.data?.services ?? []) as unknown as Component[] };
}
