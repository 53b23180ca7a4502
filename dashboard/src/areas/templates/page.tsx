import { ActionIcon, Button, Card, Group, Menu, Select, Stack, Text } from '@mantine/core';
import { notifications } from '@mantine/notifications';
import { IconBox, IconCopy, IconDots, IconPencil, IconPuzzle, IconTrash } from '@tabler/icons-react';
import { useInfiniteQuery, useQuery, useQueryClient } from '@tanstack/react-query';
import { useNavigate, useParams } from '@tanstack/react-router';
import { useState } from 'react';
import { ApiError, call, catalogApi, data } from '~/api/client';
import { useSession } from '~/app/session';
import { applicationsQuery } from '~/areas/catalog/queries';
import { Wizard } from '~/areas/composer/wizard';
import { nameOf, type Component } from '~/areas/environment/queries';
import { useTexts } from '~/i18n';
import { Confirm } from '~/ui/confirm';
import { useFailure } from '~/ui/failure';
import { FormDialog } from '~/ui/leaving';
import { useOnce } from '~/ui/once';
import { Empty, Page, PageError, PageMissing } from '~/ui/page';
import { Ask } from './ask';
import { messages } from './messages';
import { templateQuery } from './queries';

/** One template: its components, and environments made of it. */
export function TemplatePage() {
  const t = useTexts(messages);
  const { templateId } = useParams({ from: '/shell/templates/$templateId' });
  const navigate = useNavigate();
  const queries = useQueryClient();
  const failed = useFailure();
  const { project, may } = useSession();
  const [asked, setAsked] = useState<'' | 'environment' | 'rename' | 'clone' | 'delete'>('');
  const [added, setAdded] = useState<string | null>(null);
  const shown = useQuery(templateQuery(templateId));
  const refresh = () => queries.invalidateQueries({ queryKey: ['templates'] });
  const takeOut = useOnce(async (component: Component) => {
    try {
      await catalogApi.DELETE('/v1/templates/{template_id}/services/{path}', { params: { path: { template_id: templateId, path: component['?'].id }, query: { uses: 'refuse' } } });
      await refresh();
    } catch (error) {
      failed(error);
    }
  });
  if (shown.error instanceof ApiError && shown.error.status === 404) return <PageMissing />;
  if (shown.isLoadingError) return <PageError error={shown.error} reset={() => void shown.refetch()} />;
  if (!shown.data) return null;
  const template = shown.data;
  const ours = template.tenant_id === project.id && may('member_api');
  const clonable = template.is_public && may('clone_env_template');
  const components = template.services as unknown as Component[];
  const path = { template_id: templateId };
  return (
    <Page
      title={template.name}
      lead={template.description_text}
      path={[[t('title'), '/templates']]}
      actions={
        <>
          {may('create_environment') && (
            <Button leftSection={<IconBox size={16} />} disabled={components.length === 0} onClick={() => setAsked('environment')}>
              {t('makeEnvironment')}
            </Button>
          )}
          {(ours || clonable) && <Menu position="bottom-end">
            <Menu.Target>
              <ActionIcon variant="default" size="lg" aria-label={t('more')}>
                <IconDots size={18} />
              </ActionIcon>
            </Menu.Target>
            <Menu.Dropdown>
              {ours && (
                <Menu.Item leftSection={<IconPencil size={16} />} onClick={() => setAsked('rename')}>
                  {t('rename')}
                </Menu.Item>
              )}
              {clonable && (
                <Menu.Item leftSection={<IconCopy size={16} />} onClick={() => setAsked('clone')}>
                  {t('clone')}
                </Menu.Item>
              )}
              {ours && (
                <Menu.Item color="red" leftSection={<IconTrash size={16} />} onClick={() => setAsked('delete')}>
                  {t('delete')}
                </Menu.Item>
              )}
            </Menu.Dropdown>
          </Menu>}
        </>
      }
    >
      <Stack>
        {ours && <Choose onChosen={setAdded} />}
        {components.length === 0 ? (
          <Empty icon={IconPuzzle} title={t('noComponents')}>
            {t('noComponentsText')}
          </Empty>
        ) : (
          <Stack component="ul" gap="sm" p={0} m={0} style={{ listStyle: 'none' }} aria-label={t('components')}>
            {components.map((one) => (
              <Card key={one['?'].id} component="li" padding="md">
                <Group justify="space-between" wrap="nowrap">
                  <div>
                    <Text fw={600}>{nameOf(one)}</Text>
                    <Text size="xs" c="dimmed" style={{ overflowWrap: 'anywhere' }}>
                      {one['?'].type.split('/')[0]}
                    </Text>
                  </div>
                  {ours && (
                    <ActionIcon variant="subtle" color="red" aria-label={t('takeOut', { name: nameOf(one) })} onClick={() => takeOut(one)}>
                      <IconTrash size={18} />
                    </ActionIcon>
                  )}
                </Group>
              </Card>
            ))}
          </Stack>
        )}
      </Stack>
      {added && (
        <FormDialog opened onClose={() => setAdded(null)} title={t('addTitle')} size="lg">
          <Wizard
            packageId={added}
            templateId={templateId}
            deliver={(model) => call('POST', `/v1/templates/${templateId}/services`, model)}
            onCancel={() => {
              setAdded(null);
              void refresh(); // components that were made for its object fields stay
            }}
            onFinished={() => {
              setAdded(null);
              void refresh();
            }}
          />
        </FormDialog>
      )}
      {asked === 'environment' && (
        <Ask
          title={t('makeEnvironment')}
          action={t('createAction')}
          name={template.name}
          region
          onClose={() => setAsked('')}
          run={async (name, _, region) => {
            const made = await data(catalogApi.POST('/v1/templates/{template_id}/create-environment', { params: { path }, body: { name, ...(region ? { region } : {}) } }));
            await queries.invalidateQueries({ queryKey: ['environments'] });
            await navigate({ to: '/environments/$environmentId', params: { environmentId: made.environment_id } });
          }}
        />
      )}
      {asked === 'rename' && (
        <Ask
          title={t('rename')}
          action={t('save')}
          name={template.name}
          isPublic={template.is_public}
          onClose={() => setAsked('')}
          run={async (name, isPublic) => {
            await catalogApi.PUT('/v1/templates/{template_id}', { params: { path }, body: { name, is_public: isPublic } });
            await refresh();
          }}
        />
      )}
      {asked === 'clone' && (
        <Ask
          title={t('clone')}
          action={t('clone')}
          name={`${template.name} 2`}
          onClose={() => setAsked('')}
          run={async (name) => {
            const made = await data(catalogApi.POST('/v1/templates/{template_id}/clone', { params: { path }, body: { name } }));
            await refresh();
            await navigate({ to: '/templates/$templateId', params: { templateId: made.id } });
          }}
        />
      )}
      <Confirm
        opened={asked === 'delete'}
        onClose={() => setAsked('')}
        title={t('deleteTitle', { name: template.name })}
        action={t('delete')}
        run={async () => {
          await catalogApi.DELETE('/v1/templates/{template_id}', { params: { path } });
          notifications.show({ message: t('deleted', { name: template.name }) });
          await navigate({ to: '/templates' });
          await refresh();
        }}
      >
        {t('deleteText')}
      </Confirm>
    </Page>
  );
}

/** Picks the application of the next component. */
function Choose({ onChosen }: { onChosen: (packageId: string) => void }) {
  const t = useTexts(messages);
  const [search, setSearch] = useState('');
  const found = useInfiniteQuery(applicationsQuery({ search }));
  const packages = found.data?.pages.flatMap((page) => page.packages) ?? [];
  return (
    <Select
      maw={420}
      searchable
      label={t('add')}
      placeholder={t('search')}
      nothingFoundMessage={t('nothing')}
      data={packages.map((one) => ({ value: one.id, label: `${one.name} ${one.version}` }))}
      filter={({ options }) => options}
      onSearchChange={setSearch}
      value={null}
      onChange={(chosen) => chosen && onChosen(chosen)}
    />
  );
}
