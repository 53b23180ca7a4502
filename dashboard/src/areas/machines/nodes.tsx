import { IconServerOff } from '@tabler/icons-react';
import { useSuspenseQuery } from '@tanstack/react-query';
import { useSession } from '~/app/session';
import { useTexts } from '~/i18n';
import { Empty } from '~/ui/page';
import { When } from '~/ui/when';
import { messages } from './messages';
import { serversQuery } from './queries';
import { Rows } from '~/ui/rows';
import { MIB, size, State } from './state';

export function Nodes() {
  const t = useTexts(messages);
  const { isAdmin } = useSession();
  const { data: servers } = useSuspenseQuery(serversQuery);
  if (!isAdmin) {
    return (
      <Empty icon={IconServerOff} title={t('onlyOperators')}>
        {t('onlyOperatorsText')}
      </Empty>
    );
  }
  if (servers.length === 0) {
    return (
      <Empty icon={IconServerOff} title={t('noNodes')}>
        {t('noNodesText')}
      </Empty>
    );
  }
  return (
    <Rows
      label={t('nodes')}
      heads={[t('name'), t('state'), t('instances'), t('freeMemory'), t('freeDisk'), t('freeCpu'), t('heartbeat')]}
      rows={servers.map((one) => ({
        key: one.uuid ?? '',
        cells: [
          one.hostname,
          <State key="state" of={one.status} />,
          String(Object.keys(one.vms ?? {}).length),
          one.unreserved_ram === undefined ? null : t('free', { free: size(one.unreserved_ram * MIB), total: size((one.ram ?? 0) * MIB) }),
          one.unreserved_disk === undefined ? null : size(one.unreserved_disk * MIB),
          one.unreserved_cpu === undefined ? null : String(Math.round(one.unreserved_cpu / 10) / 10),
          <When key="heartbeat" at={one.last_heartbeat} />,
        ],
      }))}
    />
  );
}
