import { Button } from '@mantine/core';
import { IconPlayerPlay, IconTrash, IconUnlink } from '@tabler/icons-react';
import { useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { useSession } from '~/app/session';
import { useTexts } from '~/i18n';
import { Chosen } from '~/ui/chosen';
import { Confirm } from '~/ui/confirm';
import { useOutcome } from '~/ui/failure';
import { allowed, deploy, RULE_OF, remove, withEach, type Act } from './many';
import { messages } from './messages';
import { environmentsQuery, type ListedEnvironment } from './queries';

const ACTS: { act: Act; icon: typeof IconTrash; color?: string }[] = [
  { act: 'deploy', icon: IconPlayerPlay },
  { act: 'destroy', icon: IconTrash, color: 'var(--mantine-color-red-light-color)' },
  { act: 'abandon', icon: IconUnlink, color: 'var(--mantine-color-red-light-color)' },
];

/** What can be done with the environments that are ticked. Those that do not allow it are skipped. */
export function ChosenEnvironments({ chosen, all, choose, began }: { chosen: ListedEnvironment[]; all: ListedEnvironment[]; choose: (ids: string[]) => void; began: (environment: ListedEnvironment) => Promise<void> }) {
  const t = useTexts(messages);
  const { may } = useSession();
  const queries = useQueryClient();
  const said = useOutcome();
  const [asked, setAsked] = useState<'destroy' | 'abandon'>();
  const [busy, setBusy] = useState<Act>();
  const run = async (act: Act) => {
    setBusy(act);
    try {
      const outcome = await withEach(chosen, act, async (one) => {
        if (act === 'deploy') {
          const begun = await deploy(queries, one);
          if (begun) await began(one);
          return begun;
        }
        await remove(one.id, act === 'abandon');
        return true;
      });
      said(outcome);
      // Those that failed stay ticked.
      const failed = new Set(outcome.failed.map(([name]) => name));
      choose(chosen.filter((one) => failed.has(one.name)).map((one) => one.id));
      await Promise.all([queries.invalidateQueries({ queryKey: environmentsQuery.queryKey }), queries.invalidateQueries({ queryKey: ['environment'] })]);
    } finally {
      setBusy(undefined);
    }
  };
  const fit = (act: Act) => chosen.filter((one) => allowed(act, one));
  const names = asked ? fit(asked).map((one) => one.name) : [];
  return (
    <>
      <Chosen count={chosen.length} all={all.length} chooseAll={() => choose(all.map((one) => one.id))} clear={() => choose([])}>
        {ACTS.filter(({ act }) => may(RULE_OF[act])).map(({ act, icon: Icon, color }) => (
          <Button key={act} size="xs" variant="default" c={color} leftSection={<Icon size={14} />} loading={busy === act} disabled={busy !== undefined || fit(act).length === 0} onClick={() => (act === 'deploy' ? void run(act) : setAsked(act))}>
            {t(act)}
          </Button>
        ))}
      </Chosen>
      {asked && (
        <Confirm opened onClose={() => setAsked(undefined)} title={t(`${asked}Many`, { count: names.length })} action={t(asked)} typed={String(names.length)} run={() => run(asked)}>
          {names.join(', ')}
          <br />
          {t(`${asked}Text`)}
        </Confirm>
      )}
    </>
  );
}
