import { Stack, Title } from '@mantine/core';
import { IconNetworkOff } from '@tabler/icons-react';
import { useSuspenseQuery } from '@tanstack/react-query';
import { useSession } from '~/app/session';
import { useTexts } from '~/i18n';
import { Empty } from '~/ui/page';
import { messages } from './messages';
import { instancesOf, networksQuery, serversQuery } from './queries';
import { Rows } from '~/ui/rows';

export function Networks() {
  const t = useTexts(messages);
  const { project } = useSession();
  const { data } = useSuspenseQuery(networksQuery);
  const { data: servers } = useSuspenseQuery(serversQuery);
  const names = new Map(instancesOf(servers).map((vm) => [vm.uuid, vm.alias ?? vm.uuid]));
  const devices = new Map(data.ports.map((port) => [port.uuid, port.device_uuid]));
  if (data.networks.length === 0) {
    return (
      <Empty icon={IconNetworkOff} title={t('noNetworks')}>
        {t('noNetworksText')}
      </Empty>
    );
  }
  return (
    <Stack gap="xl">
      <Rows
        label={t('networks')}
        heads={[t('name'), t('ranges'), t('owner')]}
        rows={data.networks.map((one) => ({
          key: one.uuid,
          cells: [
            one.name,
            data.subnets
              .filter((subnet) => subnet.network_uuid === one.uuid)
              .map((subnet) => subnet.cidr)
              .join(', ') || null,
            one.external ? t('external') : one.project_id === project.id ? t('project') : t('shared'),
          ],
        }))}
      />
      {data.addresses.length > 0 && (
        <div>
          <Title order={2} size="h4" mb="sm">
            {t('floating')}
          </Title>
          <Rows
            label={t('floating')}
            heads={[t('addresses'), t('leadsTo')]}
            rows={data.addresses.map((one) => {
              const device = one.port_uuid === null ? null : devices.get(one.port_uuid);
              const name = device ? (names.get(device) ?? device) : null;
              return { key: one.uuid, cells: [one.address, name ? `${name} (${one.fixed_ip ?? ''})` : (one.fixed_ip ?? t('nothingBehind'))] };
            })}
          />
        </div>
      )}
    </Stack>
  );
}
