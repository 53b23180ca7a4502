import { Button, Menu } from '@mantine/core';
import { IconChevronDown, IconTrash } from '@tabler/icons-react';
import { useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { useSession } from '~/app/session';
import { useTexts } from '~/i18n';
import { Chosen } from '~/ui/chosen';
import { Confirm } from '~/ui/confirm';
import { useOutcome } from '~/ui/failure';
import { messages } from './messages';
import { changePackage, deletePackage, refreshPackages, type Package } from './queries';

const SWITCHES = ['enable', 'disable', 'share', 'unshare'] as const;
type Act = (typeof SWITCHES)[number] | 'delete';

/** Whether a package is not yet so. */
const CHANGES: Record<Act, (one: Package) => boolean> = {
  enable: (one) => !one.enabled,
  disable: (one) => one.enabled,
  share: (one) => !one.is_public,
  unshare: (one) => one.is_public,
  delete: () => true,
};

/** What can be done with the packages that are ticked. Those that are so already are skipped. */
export function ChosenPackages({ chosen, all, choose }: { chosen: Package[]; all: Package[]; choose: (ids: string[]) => void }) {
  const t = useTexts(messages);
  const { may } = useSession();
  const queries = useQueryClient();
  const said = useOutcome();
  const [deleting, setDeleting] = useState(false);
  const [busy, setBusy] = useState(false);
  const switches = may('modify_package') ? SWITCHES.filter((act) => may('publicize_package') || !act.endsWith('share')) : [];
  const run = async (act: Act) => {
    setBusy(true);
    const outcome = { done: [] as string[], skipped: [] as string[], failed: [] as [string, unknown][] };
    const kept: string[] = [];
    for (const one of chosen) {
      if (!CHANGES[act](one)) {
        outcome.skipped.push(one.name);
        continue;
      }
      try {
        if (act === 'delete') await deletePackage(one.id, false);
        else await changePackage(one.id, [{ op: 'replace', path: act === 'enable' || act === 'disable' ? '/enabled' : '/is_public', value: act === 'enable' || act === 'share' }]);
        outcome.done.push(one.name);
      } catch (error) {
        outcome.failed.push([one.name, error]);
        kept.push(one.id);
      }
    }
    said(outcome);
    choose(kept);
    await refreshPackages(queries);
    setBusy(false);
  };
  return (
    <>
      <Chosen count={chosen.length} all={all.length} chooseAll={() => choose(all.map((one) => one.id))} clear={() => choose([])}>
        {switches.length > 0 && <Menu position="bottom-end">
          <Menu.Target>
            <Button size="xs" variant="default" loading={busy} rightSection={<IconChevronDown size={14} />}>
              {t('change')}
            </Button>
          </Menu.Target>
          <Menu.Dropdown>
            {switches.map((act) => (
              <Menu.Item key={act} disabled={!chosen.some(CHANGES[act])} onClick={() => void run(act)}>
                {t(act)}
              </Menu.Item>
            ))}
          </Menu.Dropdown>
        </Menu>}
        {may('delete_package') && <Button size="xs" variant="default" c="var(--mantine-color-red-light-color)" leftSection={<IconTrash size={14} />} disabled={busy} onClick={() => setDeleting(true)}>
          {t('delete')}
        </Button>}
      </Chosen>
      {deleting && (
        <Confirm opened onClose={() => setDeleting(false)} title={t('deleteMany', { count: chosen.length })} action={t('delete')} run={() => run('delete')}>
          {chosen.map((one) => `${one.name} ${one.version}`).join(', ')}
          <br />
          {t('deleteManyText')}
        </Confirm>
      )}
    </>
  );
}
