import { notifications } from '@mantine/notifications';
import { useQueries, useQueryClient, type QueryClient } from '@tanstack/react-query';
import { useEffect } from 'react';
import { useTexts } from '~/i18n';
import { LossDialog, lossesOfDeployment } from './losses';
import { deploy, letGo } from './many';
import { messages } from './messages';
import { deploymentsQuery, environmentsQuery, refreshEnvironment } from './queries';

/** A deployment that was begun from the list. */
export interface Begun {
  environment: { id: string; name: string };
  deployment: string;
  /** What its request let go. */
  mayLose: string[];
}

/** The deployment that an environment has begun just now. */
export async function begunNow(queries: QueryClient, { id, name }: { id: string; name: string }, mayLose: string[] = []): Promise<Begun> {
  const [newest] = await queries.fetchQuery({ ...deploymentsQuery(id), staleTime: 0 });
  return { environment: { id, name }, deployment: newest?.id ?? '', mayLose };
}

/** Asks, one environment after the other, when a deployment was refused because of what it would lose. */
export function AskForLosses({ begun, become }: { begun: Begun[]; become: (before: Begun, after?: Begun) => void }) {
  const t = useTexts(messages);
  const queries = useQueryClient();
  const answers = useQueries({ queries: begun.map(({ environment }) => deploymentsQuery(environment.id)) });
  const ended = begun.flatMap((one, place) => {
    const deployment = answers[place]?.data?.find(({ id, finished }) => id === one.deployment && finished);
    return deployment ? [{ one, losses: lossesOfDeployment(deployment) }] : [];
  });
  const asked = ended.find(({ losses }) => losses.length > 0);
  useEffect(() => {
    for (const { one, losses } of ended) if (losses.length === 0) become(one);
  });
  if (!asked) return null;
  const { one, losses } = asked;
  const run = async (keys: string[]) => {
    const mayLose = letGo(one.mayLose, keys);
    const { id } = one.environment;
    // What it is now: a part may be done, and then it is a failure that is deployed again. An answer that is on
    // its way may say what it was before that.
    await queries.cancelQueries({ queryKey: environmentsQuery.queryKey });
    const now = (await queries.fetchQuery({ ...environmentsQuery, staleTime: 0 })).find((each) => each.id === id);
    const goesOn = now !== undefined && (await deploy(queries, now, mayLose));
    notifications.show({ message: t(goesOn ? 'deployStarted' : 'deployNothing') });
    become(one, goesOn ? await begunNow(queries, one.environment, mayLose) : undefined);
    await refreshEnvironment(queries, id);
  };
  return <LossDialog key={one.deployment} of={one.environment.name} losses={losses} onClose={() => become(one)} run={run} />;
}
