import { Stack, Text, Title } from '@mantine/core';
import { IconPlus, IconSettingsAutomation } from '@tabler/icons-react';
import { useQuery } from '@tanstack/react-query';
import { Link, useNavigate } from '@tanstack/react-router';
import { definitionsQuery } from '~/areas/definitions/queries';
import { useTexts } from '~/i18n';
import { messages } from './messages';
import classes from './palette.module.css';

/** The services of the project's definitions, beside the services of an environment: press the plus of one. */
export function ServicePalette({ environmentId }: { environmentId: string }) {
  const t = useTexts(messages);
  const navigate = useNavigate();
  const { data: definitions } = useQuery(definitionsQuery);
  const offered = (definitions ?? []).filter((one) => one.valid && one.enabled !== false);
  return (
    <Stack component="section" aria-label={t('services')} gap="sm">
      <Title order={2} size="h4">
        {t('services')}
      </Title>
      <ul className={classes.tiles}>
        {offered.map(({ full_service_name: service, service_display_name: name = service }) => (
          <li key={service} className={classes.service}>
            <IconSettingsAutomation size={20} aria-hidden />
            <span className={classes.name} title={name}>
              {name}
            </span>
            <button type="button" className={classes.plus} aria-label={t('add', { name })} onClick={() => void navigate({ to: '/environments/$environmentId/add-service/$service', params: { environmentId, service } })}>
              <IconPlus size={16} aria-hidden />
            </button>
          </li>
        ))}
      </ul>
      {definitions && offered.length === 0 && (
        <Text size="sm" c="dimmed">
          {t('noServices')} <Link to="/definitions">{t('definitions')}</Link>
        </Text>
      )}
    </Stack>
  );
}
