import { Alert, Button, Group, Stack, Text } from '@mantine/core';
import { useQuery, useQueryClient } from '@tanstack/react-query';
import { catalogApi } from '~/api/client';
import { useSession } from '~/app/session';
import { useTexts } from '~/i18n';
import { useOnce } from '~/ui/once';
import { useFailure } from '~/ui/failure';
import { Fqn } from '~/ui/fqn';
import { When } from '~/ui/when';
import { messages } from './messages';
import { leakedQuery } from './queries';

/** Removed objects whose clean-up failed, until somebody says that they are looked after. */
export function Leaked({ environmentId }: { environmentId: string }) {
  const t = useTexts(messages);
  const queries = useQueryClient();
  const failed = useFailure();
  const { may } = useSession();
  const { data: objects = [] } = useQuery(leakedQuery(environmentId));
  const dismiss = useOnce(async (id: string) => {
    try {
      await catalogApi.DELETE('/v1/environments/{environment_id}/leaked/{object_id}', { params: { path: { environment_id: environmentId, object_id: id } } });
      await queries.invalidateQueries({ queryKey: ['environment', environmentId, 'leaked'] });
    } catch (error) {
      failed(error);
    }
  });
  if (objects.length === 0) return null;
  return (
    <Alert color="yellow" variant="light" title={t('leakedTitle')}>
      <Text size="sm">{t('leaked')}</Text>
      <Stack component="ul" gap="xs" mt="sm" p={0} style={{ listStyle: 'none' }}>
        {objects.map((one) => (
          <Group key={one.id} component="li" justify="space-between" wrap="nowrap" align="flex-start">
            <Text size="sm" style={{ overflowWrap: 'anywhere' }}>
              {one.name ?? one.id} · <Fqn name={one.type} /> · <When at={one.created} />
              <br />
              {one.error}
            </Text>
            {may('update_environment') && (
              <Button size="compact-sm" variant="default" aria-label={t('dismissOf', { name: one.name ?? one.id })} onClick={() => dismiss(one.id)}>
                {t('dismiss')}
              </Button>
            )}
          </Group>
        ))}
      </Stack>
    </Alert>
  );
}
