import { Tabs } from '@mantine/core';
import { useNavigate, useSearch } from '@tanstack/react-router';
import { Suspense } from 'react';
import { useSession } from '~/app/session';
import { useTexts } from '~/i18n';
import { Page } from '~/ui/page';
import { TabRow } from '~/ui/tabs';
import { Images } from './images';
import { Instances } from './instances';
import { messages } from './messages';
import { Networks } from './networks';
import { Nodes } from './nodes';
import { Placement } from './placement';
import { Quotas } from './quotas';
import { Tickets } from './tickets';
import { TABS, type Tab } from './index';

const CONTENT: Record<Tab, () => React.ReactNode> = { instances: Instances, nodes: Nodes, images: Images, networks: Networks, tickets: Tickets, quotas: Quotas, placement: Placement };

export function Machines() {
  const t = useTexts(messages);
  const { tab = 'instances' } = useSearch({ from: '/shell/machines' });
  const navigate = useNavigate({ from: '/machines' });
  const { isAdmin } = useSession();
  const Content = CONTENT[tab];
  return (
    <Page title={t('title')} lead={t('lead')}>
      <Tabs value={tab} onChange={(value) => void navigate({ search: value === 'instances' ? {} : { tab: value as Tab } })} keepMounted={false}>
        <TabRow chosen={tab}>
          {TABS.filter((one) => isAdmin || one !== 'placement').map((one) => (
            <Tabs.Tab key={one} value={one}>
              {t(one)}
            </Tabs.Tab>
          ))}
        </TabRow>
        <Tabs.Panel value={tab} pt="lg">
          <Suspense fallback={null}>
            <Content />
          </Suspense>
        </Tabs.Panel>
      </Tabs>
    </Page>
  );
}
