import { ActionIcon, Button, Group, Menu, Select, Stack, Switch, Text, TextInput } from '@mantine/core';
import { useDebouncedValue } from '@mantine/hooks';
import { notifications } from '@mantine/notifications';
import { IconDots, IconDownload, IconPackageOff, IconPencil, IconSearch, IconTrash, IconUpload } from '@tabler/icons-react';
import { keepPreviousData, useInfiniteQuery, useQuery, useQueryClient } from '@tanstack/react-query';
import { Link, useNavigate, useSearch } from '@tanstack/react-router';
import { useState } from 'react';
import { ApiError } from '~/api/client';
import { useSession } from '~/app/session';
import { projectsQuery } from '~/areas/administration/queries';
import { packageQuery } from '~/areas/catalog/queries';
import { useTexts } from '~/i18n';
import { Confirm } from '~/ui/confirm';
import { useExplained, useFailure } from '~/ui/failure';
import { Fqn } from '~/ui/fqn';
import { Empty, Page, PageError } from '~/ui/page';
import { Rows } from '~/ui/rows';
import { When } from '~/ui/when';
import { Categories } from './categories';
import { ChosenPackages } from './chosen';
import { EditDialog } from './edit';
import { ImportDialog } from './import';
import { messages } from './messages';
import { changePackage, deletePackage, downloadOf, ownPackagesQuery, refreshPackages, type Filter, type Package } from './queries';
import { UploadDialog } from './upload';

/** The packages that one may change: what is in the catalog, for whom. */
export function Packages() {
  const t = useTexts(messages);
  const { project, isAdmin, may } = useSession();
  const queries = useQueryClient();
  const failed = useFailure();
  const explained = useExplained();
  const [typed, setTyped] = useState('');
  const [search] = useDebouncedValue(typed.trim(), 180);
  const [type, setType] = useState<Filter['type']>('');
  const [exact, setExact] = useState(false);
  const [own, setOwn] = useState(false);
  const [ticked, setTicked] = useState<ReadonlySet<string>>(new Set());
  const wanted = useSearch({ from: '/shell/packages' });
  const navigate = useNavigate({ from: '/packages' });
  const [dropped, setDropped] = useState<File[] | null>(wanted.upload ? [] : null);
  const asked = useQuery({ ...packageQuery(wanted.edit ?? ''), enabled: wanted.edit !== undefined });
  const [over, setOver] = useState(false);
  const [edited, setEdited] = useState<Package>();
  const [deleted, setDeleted] = useState<Package>();
  const [usedBy, setUsedBy] = useState('');
  const found = useInfiniteQuery({ ...ownPackagesQuery({ text: search, exact, type, own }), placeholderData: keepPreviousData });
  const packages = found.data?.pages.flatMap((page) => page.packages) ?? [];
  const choose = (ids: string[]) => setTicked(new Set(ids));
  // Operators see whose packages the others are.
  const { data: projects = [] } = useQuery({ ...projectsQuery, enabled: isAdmin, staleTime: 60_000 });
  const ownerOf = (one: Package) => (one.owner_id === project.id ? project.name : (projects.find(({ id }) => id === one.owner_id)?.name ?? t('unknownProject')));
  const filtered = Boolean(search || type || own);
  const set = async (one: Package, path: '/enabled' | '/is_public', value: boolean) => {
    try {
      await changePackage(one.id, [{ op: 'replace', path, value }]);
      await refreshPackages(queries);
    } catch (error) {
      failed(error);
    }
  };
  const remove = async () => {
    if (!deleted) return;
    try {
      await deletePackage(deleted.id, usedBy !== '');
    } catch (error) {
      if (!(error instanceof ApiError) || error.status !== 409 || usedBy) throw error;
      // The dialog stays, and says who uses it: the second press means it.
      setUsedBy(error.message);
      throw error;
    }
    notifications.show({ message: t('deleted', { name: deleted.name }) });
    await refreshPackages(queries);
  };
  const uploadButton = (
    <Button leftSection={<IconUpload size={16} />} onClick={() => setDropped([])}>
      {t('upload')}
    </Button>
  );
  return (
    <div
      onDragOver={(event) => {
        if (!may('upload_package') || !event.dataTransfer.types.includes('Files')) return;
        event.preventDefault();
        setOver(true);
      }}
      onDragLeave={(event) => !event.currentTarget.contains(event.relatedTarget as Node | null) && setOver(false)}
      onDrop={(event) => {
        event.preventDefault();
        setOver(false);
        setDropped([...event.dataTransfer.files]);
      }}
      style={over ? { outline: '2px dashed var(--mantine-primary-color-filled)', outlineOffset: 8, borderRadius: 8 } : undefined}
    >
      <Page title={t('title')} lead={t('lead')} actions={
          <>
            {may('get_category') && (
              <Button variant="default" onClick={() => void navigate({ search: { categories: true } })}>
                {t('categories')}
              </Button>
            )}
            {may('upload_package') && (
              <>
                <Button variant="default" onClick={() => void navigate({ search: { import: true } })}>
                  {t('import')}
                </Button>
                {uploadButton}
              </>
            )}
          </>
        }>
        <Stack>
          <Group gap="sm" align="flex-end">
            <TextInput type="search" w={360} maw="100%" aria-label={t(exact ? 'searchName' : 'search')} placeholder={t(exact ? 'searchName' : 'search')} leftSection={<IconSearch size={16} />} value={typed} onChange={(event) => setTyped(event.currentTarget.value)} />
            <Select
              w={150}
              aria-label={t('searchBy')}
              allowDeselect={false}
              data={[
                { value: 'words', label: t('byWords') },
                { value: 'name', label: t('byName') },
              ]}
              value={exact ? 'name' : 'words'}
              onChange={(value) => setExact(value === 'name')}
            />
            <Select w={150} aria-label={t('type')} allowDeselect={false} data={(['', 'Application', 'Library'] as const).map((value) => ({ value, label: t(`type_${value}`) }))} value={type} onChange={(value) => setType((value ?? '') as Filter['type'])} />
            <Select
              w={190}
              aria-label={t('owner')}
              allowDeselect={false}
              data={[
                { value: 'any', label: t('anyOwner') },
                { value: 'own', label: t('ownOnly', { name: project.name }) },
              ]}
              value={own ? 'own' : 'any'}
              onChange={(value) => setOwn(value === 'own')}
            />
          </Group>
          <ChosenPackages chosen={packages.filter((one) => ticked.has(one.id))} all={packages} choose={choose} />
          {found.isLoadingError ? (
            <PageError error={found.error} reset={() => void found.refetch()} />
          ) : packages.length === 0 ? (
            !found.isPending && (
              <Empty icon={IconPackageOff} title={t(filtered ? 'nothing' : 'emptyTitle')}>
                {filtered ? null : t('empty')}
              </Empty>
            )
          ) : (
            <Rows
              label={t('title')}
              heads={[t('name'), t('type'), t('version'), t('owner'), t('enabled'), t('public'), t('created'), t('updated'), t('actions')]}
              choice={{ ticked, choose, nameOf: (id) => packages.find((one) => one.id === id)?.name ?? id }}
              rows={packages.map((one) => ({
                key: one.id,
                cells: [
                  <div key="name">
                    <Link to="/catalog/$packageId" params={{ packageId: one.id }}>
                      {one.name}
                    </Link>
                    <Text size="xs" c="dimmed" style={{ overflowWrap: 'anywhere' }}>
                      <Fqn name={one.fully_qualified_name} />
                    </Text>
                  </div>,
                  t(`type_${one.type}`),
                  one.version,
                  ownerOf(one),
                  <Switch key="enabled" checked={one.enabled} disabled={!may('modify_package')} aria-label={t('enabledOf', { name: one.name })} onChange={(event) => void set(one, '/enabled', event.currentTarget.checked)} />,
                  <Switch key="public" checked={one.is_public} disabled={!may('modify_package') || !may('publicize_package')} aria-label={t('publicOf', { name: one.name })} onChange={(event) => void set(one, '/is_public', event.currentTarget.checked)} />,
                  <When key="created" at={one.created} />,
                  <When key="updated" at={one.updated} />,
                  <Menu key="actions" position="bottom-end">
                    <Menu.Target>
                      <ActionIcon variant="subtle" aria-label={t('more', { name: one.name })}>
                        <IconDots size={18} />
                      </ActionIcon>
                    </Menu.Target>
                    <Menu.Dropdown>
                      {may('modify_package') && (
                        <Menu.Item leftSection={<IconPencil size={16} />} onClick={() => setEdited(one)}>
                          {t('edit')}
                        </Menu.Item>
                      )}
                      {may('download_package') && (
                        <Menu.Item leftSection={<IconDownload size={16} />} component="a" href={downloadOf(one.id)} download={`${one.fully_qualified_name}.zip`}>
                          {t('download')}
                        </Menu.Item>
                      )}
                      {may('delete_package') && <Menu.Divider />}
                      {may('delete_package') && <Menu.Item
                        color="red"
                        leftSection={<IconTrash size={16} />}
                        onClick={() => {
                          setUsedBy('');
                          setDeleted(one);
                        }}
                      >
                        {t('delete')}
                      </Menu.Item>}
                    </Menu.Dropdown>
                  </Menu>,
                ],
              }))}
            />
          )}
          {found.hasNextPage && (
            <Group justify="center">
              {found.isFetchNextPageError && (
                <Text size="sm" c="var(--mantine-color-error)" role="alert">
                  {explained(found.error).text}
                </Text>
              )}
              <Button variant="default" loading={found.isFetchingNextPage} onClick={() => void found.fetchNextPage()}>
                {t('showMore')}
              </Button>
            </Group>
          )}
        </Stack>
      </Page>
      {dropped && may('upload_package') && <UploadDialog dropped={dropped} onClose={() => setDropped(null)} />}
      {edited && <EditDialog one={edited} onClose={() => setEdited(undefined)} />}
      {asked.data && wanted.edit && may('modify_package') && <EditDialog key={asked.data.id} one={asked.data} onClose={() => void navigate({ search: {} })} />}
      {wanted.import && may('upload_package') && <ImportDialog onClose={() => void navigate({ search: {} })} />}
      {wanted.categories && may('get_category') && <Categories onClose={() => void navigate({ search: {} })} />}
      <Confirm opened={deleted !== undefined} onClose={() => setDeleted(undefined)} title={t('deleteTitle', { name: deleted?.name })} action={t(usedBy ? 'deleteAnyway' : 'delete')} run={remove}>
        {usedBy || t('deleteText')}
      </Confirm>
    </div>
  );
}
