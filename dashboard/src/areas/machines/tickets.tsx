import { IconTicketOff } from '@tabler/icons-react';
import { useSuspenseQuery } from '@tanstack/react-query';
import { useTexts } from '~/i18n';
import { Empty } from '~/ui/page';
import { When } from '~/ui/when';
import { messages } from './messages';
import { instancesOf, serversQuery, ticketsQuery } from './queries';
import { Rows } from '~/ui/rows';
import { State } from './state';

/** What a ticket waits for, as the service says it. */
function reason(waiting: unknown): string | null {
  if (typeof waiting === 'string') return waiting;
  if (waiting && typeof waiting === 'object' && 'message' in waiting) return String(waiting.message);
  return null;
}

export function Tickets() {
  const t = useTexts(messages);
  const { data: all } = useSuspenseQuery(ticketsQuery);
  const { data: servers } = useSuspenseQuery(serversQuery);
  const names = new Map(instancesOf(servers).map((vm) => [vm.uuid, vm.alias ?? vm.uuid]));
  const open = all.filter((one) => one.status === 'queued' || one.status === 'active');
  if (open.length === 0) {
    return (
      <Empty icon={IconTicketOff} title={t('noTickets')}>
        {t('noTicketsText')}
      </Empty>
    );
  }
  return (
    <Rows
      label={t('tickets')}
      heads={[t('ticketFor'), t('state'), t('waitsFor'), t('since'), t('until')]}
      rows={open.map((one) => ({
        key: one.uuid,
        cells: [
          `${one.action ?? one.scope} ${names.get(one.id) ?? one.id}`,
          <State key="state" of={one.status} />,
          reason(one.waiting_on),
          <When key="since" at={one.created_at} />,
          <When key="until" at={one.expires_at} />,
        ],
      }))}
    />
  );
}
