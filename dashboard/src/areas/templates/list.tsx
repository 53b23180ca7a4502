import { Badge, Button } from '@mantine/core';
import { IconPlus, IconTemplate } from '@tabler/icons-react';
import { useQuery, useQueryClient } from '@tanstack/react-query';
import { Link, useNavigate } from '@tanstack/react-router';
import { useState } from 'react';
import { catalogApi, data } from '~/api/client';
import { useSession } from '~/app/session';
import { useTexts } from '~/i18n';
import { Empty, Page, PageError } from '~/ui/page';
import { Rows } from '~/ui/rows';
import { When } from '~/ui/when';
import { Ask } from './ask';
import { messages } from './messages';
import { templatesQuery } from './queries';

/** Own templates and those that others share. */
export function Templates() {
  const t = useTexts(messages);
  const navigate = useNavigate();
  const queries = useQueryClient();
  const { project, may } = useSession();
  const shown = useQuery(templatesQuery);
  const [asked, setAsked] = useState(false);
  const button = may('create_env_template') && (
    <Button leftSection={<IconPlus size={16} />} onClick={() => setAsked(true)}>
      {t('create')}
    </Button>
  );
  if (shown.isLoadingError) return <PageError error={shown.error} reset={() => void shown.refetch()} />;
  const templates = shown.data ?? [];
  return (
    <Page title={t('title')} lead={t('lead')} actions={templates.length > 0 && button}>
      {shown.data && templates.length === 0 ? (
        <Empty icon={IconTemplate} title={t('emptyTitle')} action={button}>
          {t('empty')}
        </Empty>
      ) : (
        <Rows
          label={t('title')}
          heads={[t('name'), t('owner'), t('updated')]}
          rows={templates.map((one) => ({
            key: one.id,
            cells: [
              <Link key="name" to="/templates/$templateId" params={{ templateId: one.id }}>
                {one.name}
              </Link>,
              one.tenant_id === project.id ? t('ours') : <Badge key="shared" variant="light" tt="none" radius="sm">{t('shared')}</Badge>,
              <When key="at" at={one.updated} />,
            ],
          }))}
        />
      )}
      {asked && (
        <Ask
          title={t('create')}
          action={t('createAction')}
          onClose={() => setAsked(false)}
          run={async (name) => {
            const made = await data(catalogApi.POST('/v1/templates', { body: { name } }));
            await queries.invalidateQueries({ queryKey: ['templates'] });
            await navigate({ to: '/templates/$templateId', params: { templateId: made.id } });
          }}
        />
      )}
    </Page>
  );
}
