import { Button, Chip, Group, Select, SimpleGrid, Skeleton, Stack, Text, TextInput } from '@mantine/core';
import { useDebouncedValue, useIntersection } from '@mantine/hooks';
import { IconBolt, IconBox, IconPackageOff, IconPlus, IconSearch, IconSearchOff } from '@tabler/icons-react';
import { keepPreviousData, useInfiniteQuery, useQuery } from '@tanstack/react-query';
import { Link, useNavigate, useRouter, useSearch } from '@tanstack/react-router';
import { memo, useCallback, useDeferredValue, useEffect, useMemo, useState } from 'react';
import { useSession } from '~/app/session';
import { environmentsQuery } from '~/areas/environment/queries';
import { repositoryQuery } from '~/areas/packages/queries';
import { useTexts } from '~/i18n';
import { useExplained } from '~/ui/failure';
import { Empty, Page, PageError } from '~/ui/page';
import { ChooseEnvironment, takesApplications } from './add';
import { rememberCurrent } from './current';
import { Logo } from './logo';
import { messages } from './messages';
import { applicationsQuery, categoriesQuery, type Package } from './queries';
import { Recent } from './recent';
import square from '~/ui/square.module.css';
import classes from './browse.module.css';

const FIRST = 12;

export function Browse() {
  const t = useTexts(messages);
  const explained = useExplained();
  const wanted = useSearch({ from: '/shell/catalog' });
  const navigate = useNavigate({ from: '/catalog' });
  const [typed, setTyped] = useState(wanted.search ?? '');
  const [search] = useDebouncedValue(typed.trim(), 180);
  const router = useRouter();
  useEffect(() => {
    // Who has left already (the next page is being loaded) is not called back.
    if (router.latestLocation.pathname !== '/catalog' || (router.latestLocation.search.search ?? '') === search) return;
    void navigate({ search: (before) => ({ ...before, search: search || undefined }), replace: true });
  }, [search, navigate, router]);
  const { data: categories = [] } = useQuery(categoriesQuery);
  const found = useInfiniteQuery({ ...applicationsQuery({ ...wanted, search }), placeholderData: keepPreviousData });
  const packages = useMemo(() => found.data?.pages.flatMap((page) => page.packages) ?? [], [found.data]);
  // Those that fill a window are painted before the rest is drawn.
  const shownPackages = useDeferredValue(packages, packages.slice(0, FIRST));
  const { fetchNextPage, isFetchingNextPage, isFetchNextPageError } = found;
  const end = useIntersection({ rootMargin: '600px' });
  const nearEnd = end.entry?.isIntersecting ?? false;
  useEffect(() => {
    // After a failure one asks again by the button, or it would be asked for without an end.
    if (nearEnd && !isFetchingNextPage && !isFetchNextPageError) void fetchNextPage();
  }, [nearEnd, isFetchingNextPage, isFetchNextPageError, fetchNextPage]);
  const filtered = Boolean(search || wanted.category || wanted.tag);
  const { project, may } = useSession();
  const { data: environments = [] } = useQuery(environmentsQuery);
  const [asked, setAsked] = useState<Package | null>(null);
  const go = useCallback((environmentId: string, packageId: string) => void navigate({ to: '/environments/$environmentId/add/$packageId', params: { environmentId, packageId } }), [navigate]);
  const into = wanted.environment;
  const add = useCallback((application: Package) => (into ? go(into, application.id) : setAsked(application)), [into, go]);
  useEffect(() => {
    if (wanted.environment) rememberCurrent(project.id, wanted.environment);
  }, [wanted.environment, project.id]);
  const adding = environments.find((one) => one.id === wanted.environment)?.name;
  const quick = useCallback((packageId: string) => void navigate({ to: '/catalog/$packageId/deploy', params: { packageId } }), [navigate]);
  const targets = environments.filter((one) => takesApplications(one) || one.id === wanted.environment);
  const choose = (id: string | null) => void navigate({ search: ({ environment: _, ...rest }) => (id ? { ...rest, environment: id } : rest) });
  const reset = () => {
    setTyped('');
    void navigate({ search: ({ environment }) => (environment ? { environment } : {}) });
  };
  const shown = [...categories].sort((a, b) => Number(b.package_count > 0) - Number(a.package_count > 0) || a.name.localeCompare(b.name));
  return (
    <Page title={t('title')} lead={adding ? t('adding', { name: adding }) : t('lead')}>
      <Stack gap="lg">
        <Group gap="sm">
          <TextInput
            type="search"
            size="md"
            flex="1 1 16rem"
            aria-label={t('search')}
            placeholder={t('search')}
            leftSection={<IconSearch size={18} />}
            value={typed}
            onChange={(event) => setTyped(event.currentTarget.value)}
          />
          {targets.length > 0 && (
            <Select
              size="md"
              w={{ base: '100%', sm: 240 }}
              searchable={targets.length > 8}
              clearable
              aria-label={t('into')}
              placeholder={t('intoAny')}
              leftSection={<IconBox size={18} />}
              data={targets.map((one) => ({ value: one.id, label: one.name }))}
              value={wanted.environment ?? null}
              onChange={choose}
            />
          )}
        </Group>
        {(shown.length > 0 || wanted.tag) && (
          <Group gap="xs" role="group" aria-label={t('categories')}>
            <Chip checked={!wanted.category} onChange={() => void navigate({ search: ({ category: _, ...rest }) => rest })} size="sm">
              {t('all')}
            </Chip>
            {shown.map((one) => (
              <Chip key={one.id} size="sm" checked={wanted.category === one.name} disabled={one.package_count === 0} onChange={() => void navigate({ search: (before) => ({ ...before, category: one.name }) })}>
                {one.name} {one.package_count > 0 && <Text span size="xs">({one.package_count})</Text>}
              </Chip>
            ))}
            {wanted.tag && (
              <Chip checked size="sm" onChange={() => void navigate({ search: ({ tag: _, ...rest }) => rest })}>
                {t('tag', { tag: wanted.tag })}
              </Chip>
            )}
          </Group>
        )}
        {!filtered && <Recent environment={wanted.environment} />}
        {found.isLoadingError ? (
          <PageError error={found.error} reset={() => void found.refetch()} />
        ) : found.isPending ? (
          <SimpleGrid cols={{ base: 1, sm: 2, lg: 3 }}>
            {Array.from({ length: 6 }, (_, index) => (
              <Skeleton key={index} height={150} radius="lg" />
            ))}
          </SimpleGrid>
        ) : packages.length === 0 ? (
          filtered ? (
            <Empty icon={IconSearchOff} title={t('nothingTitle')} action={<Button variant="default" onClick={reset}>{t('reset')}</Button>}>
              {t('nothing')}
            </Empty>
          ) : (
            <Empty icon={IconPackageOff} title={t('emptyTitle')} action={may('upload_package') && <Button renderRoot={(props) => <Link {...props} to="/packages" search={{ import: true }} />}>{t('toImport')}</Button>}>
              {t('empty')} <FromRepository />
            </Empty>
          )
        ) : (
          <>
            <Text size="sm" c="dimmed" role="status">
              {t('results', { count: packages.length })}
              {found.hasNextPage && ' …'}
            </Text>
            <SimpleGrid cols={{ base: 1, sm: 2, lg: 3 }} component="ul" className={classes.tiles}>
              {shownPackages.map((one) => (
                <Tile key={one.id} application={one} environment={wanted.environment} add={add} quick={quick} />
              ))}
            </SimpleGrid>
            {found.hasNextPage && (
              <Group justify="center" ref={end.ref}>
                {isFetchNextPageError && (
                  <Text size="sm" c="var(--mantine-color-error)" role="alert">
                    {explained(found.error).text}
                  </Text>
                )}
                <Button variant="default" loading={found.isFetchingNextPage} onClick={() => void found.fetchNextPage()}>
                  {t('more')}
                </Button>
              </Group>
            )}
          </>
        )}
      </Stack>
      {asked && <ChooseEnvironment packageId={asked.id} onClose={() => setAsked(null)} />}
    </Page>
  );
}

/** Where packages are imported from, where an operator has said so. */
function FromRepository() {
  const t = useTexts(messages);
  const { data: repository } = useQuery(repositoryQuery);
  return repository?.url ? <>{t('repository', { url: repository.url })}</> : null;
}

interface TileProps {
  application: Package;
  environment: string | undefined;
  add: (application: Package) => void;
  quick: (packageId: string) => void;
}

/** Typing and further tiles do not draw it again. Plain elements: there are many, and the first are waited for. */
const Tile = memo(function Tile({ application, environment, add, quick }: TileProps) {
  const t = useTexts(messages);
  const { project, may } = useSession();
  const { id, name, version, author, description, tags } = application;
  return (
    <li className={classes.tile}>
      <div className={classes.head}>
        <Logo id={id} name={name} />
        <div className={classes.about}>
          <Link to="/catalog/$packageId" params={{ packageId: id }} search={environment ? { environment } : {}} className={classes.name}>
            {name}
          </Link>
          <div className={classes.by}>
            {version} {author && `· ${t('by', { author })}`}
          </div>
        </div>
      </div>
      <p className={classes.description}>{description}</p>
      <div className={classes.foot}>
        <div className={classes.tags}>
          {tags.slice(0, 3).map((tag) => (
            <span key={tag} className={classes.tag}>
              {tag}
            </span>
          ))}
          {application.owner_id !== project.id && (
            <span className={classes.tag} data-shared>
              {t('shared')}
            </span>
          )}
        </div>
        {may('create_environment') && (
          <button type="button" className={`${square.button} ${classes.quick}`} data-framed aria-label={t('quickNamed', { name })} title={t('quickHint')} onClick={() => quick(id)}>
            <IconBolt size={16} aria-hidden />
          </button>
        )}
        {may('update_services') && (
          <button type="button" className={classes.add} aria-label={t('addNamed', { name })} onClick={() => add(application)}>
            <IconPlus size={16} aria-hidden />
            {t('add')}
          </button>
        )}
      </div>
    </li>
  );
});
