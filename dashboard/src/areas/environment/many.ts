// What can be done with an environment, and the same done with many that were chosen in the list.
import type { QueryClient } from '@tanstack/react-query';
import { catalogApi } from '~/api/client';
import type { Rule } from '~/app/session';
import { changesOf, currentSession, ensureSession, isBusy, sessionsQuery, shownStatus, type Judged } from './queries';

export type Act = 'deploy' | 'destroy' | 'abandon';
/** The policy's rule of each. */
export const RULE_OF = { deploy: 'deploy_session', destroy: 'delete_environment', abandon: 'delete_environment' } as const satisfies Record<Act, Rule>;

export interface Acted extends Judged {
  id: string;
  name: string;
}

/** Whether the status of an environment lets it be done (dashboard-and-cli.md A4). */
export function allowed(act: Act, environment: Judged): boolean {
  const status = shownStatus(environment);
  switch (act) {
    case 'deploy':
      return status === 'pending' || status === 'deploy failure';
    case 'destroy':
      return !isBusy(status);
    case 'abandon':
      return status !== 'pending' && status !== 'new';
  }
}

export interface Outcome {
  done: string[];
  skipped: string[];
  failed: [name: string, error: unknown][];
}

/** Does it with each that allows it; one that fails does not stop the others. `run` says whether there was something to do. */
export async function withEach<One extends Acted>(chosen: One[], act: Act, run: (one: One) => Promise<boolean>): Promise<Outcome> {
  const outcome: Outcome = { done: [], skipped: [], failed: [] };
  for (const one of chosen) {
    if (!allowed(act, one)) {
      outcome.skipped.push(one.name);
      continue;
    }
    try {
      (await run(one)) ? outcome.done.push(one.name) : outcome.skipped.push(one.name);
    } catch (error) {
      outcome.failed.push([one.name, error]);
    }
  }
  return outcome;
}

/** What may be lost after an answer, with what was let go by those before: else it would be asked again for ever. */
export const letGo = (before: string[], now: string[]) => [...new Set([...before, ...now])];

/** The query of a request that loses only what it names. */
export const guarded = (mayLose: string[]) => ({ mayLose: mayLose.length > 0 ? mayLose : [''] });

/**
 * Deploys one's own changes, or again what failed; false: the changes that wait are somebody else's.
 *
 * `mayLose`: the keys of machines, volumes and addresses that may be lost. Before anything else is, it is refused.
 */
export async function deploy(queries: QueryClient, { id, status }: { id: string; status: string }, mayLose: string[] = []): Promise<boolean> {
  const own = currentSession(await queries.fetchQuery({ ...sessionsQuery(id), staleTime: 0 }));
  if (changesOf(own).length === 0 && status !== 'deploy failure') return false;
  const session = own?.id ?? (await ensureSession(queries, id));
  await catalogApi.POST('/v1/environments/{environment_id}/sessions/{session_id}/deploy', { params: { path: { environment_id: id, session_id: session }, query: guarded(mayLose) } });
  return true;
}

export async function remove(id: string, abandon: boolean): Promise<void> {
  await catalogApi.DELETE('/v1/environments/{environment_id}', { params: { path: { environment_id: id }, query: abandon ? { abandon: 'true' } : {} } });
}
