import { Button, Card, Checkbox, Group, Radio, Select, Stack, Text, TextInput, useMatches } from '@mantine/core';
import { IconBox, IconHistory, IconPlus, IconSearch } from '@tabler/icons-react';
import { useQuery, useQueryClient, useSuspenseQuery } from '@tanstack/react-query';
import { Link, useNavigate, useSearch } from '@tanstack/react-router';
import { useWindowVirtualizer } from '@tanstack/react-virtual';
import { memo, useCallback, useDeferredValue, useLayoutEffect, useRef, useState } from 'react';
import { catalogApi, data, type Catalog } from '~/api/client';
import { useSession } from '~/app/session';
import { useTexts } from '~/i18n';
import { useExplained } from '~/ui/failure';
import { FormDialog } from '~/ui/leaving';
import { messages as common } from '~/ui/messages';
import { Empty, Page } from '~/ui/page';
import { When } from '~/ui/when';
import { AskForLosses, begunNow, type Begun } from './begun';
import { ChosenEnvironments } from './chosen';
import { EnvironmentDialogs, EnvironmentMenu, type Asked } from './menu';
import { messages } from './messages';
import { environmentsQuery, hasServices, joinableQuery, type ListedEnvironment } from './queries';
import { Status } from './status';
import { opensAt } from './tab';
import classes from './list.module.css';

export function EnvironmentList() {
  const t = useTexts(messages);
  const navigate = useNavigate({ from: '/environments' });
  const { create } = useSearch({ from: '/shell/environments' });
  const { may } = useSession();
  const { data: all } = useSuspenseQuery(environmentsQuery);
  const [search, setSearch] = useState('');
  const wanted = useDeferredValue(search).trim().toLowerCase();
  const found = all.filter((one) => one.name.toLowerCase().includes(wanted));
  const [ticked, setTicked] = useState<ReadonlySet<string>>(new Set());
  const tick = useCallback((id: string, on: boolean) => setTicked((was) => new Set(on ? [...was, id] : [...was].filter((one) => one !== id))), []);
  // Of the list, not of a tile: another environment may push a tile to the next row, where it is made anew.
  const [asked, setAsked] = useState<{ environment: ListedEnvironment; what: Asked }>();
  const ask = useCallback((environment: ListedEnvironment, what: Asked) => setAsked({ environment, what }), []);
  // Whoever deploys from here is asked here.
  const queries = useQueryClient();
  const [begun, setBegun] = useState<Begun[]>([]);
  const sees = may('list_deployments');
  const began = useCallback(
    async (environment: ListedEnvironment) => {
      if (!sees) return;
      const one = await begunNow(queries, environment);
      setBegun((was) => [...was.filter((each) => each.environment.id !== environment.id), one]);
    },
    [queries, sees],
  );
  const become = useCallback((before: Begun, after?: Begun) => setBegun((was) => was.flatMap((one) => (one !== before ? [one] : after ? [after] : []))), []);
  const chosen = found.filter((one) => ticked.has(one.id));
  const open = (shown: boolean) => void navigate({ search: shown ? { create: true } : {} });
  const button = may('create_environment') && (
    <Button leftSection={<IconPlus size={16} />} onClick={() => open(true)}>
      {t('create')}
    </Button>
  );
  return (
    <Page title={t('title')} lead={t('lead')} actions={
        all.length > 0 && (
          <>
            {may('list_deployments_all_environments') && (
              <Button variant="default" leftSection={<IconHistory size={16} />} renderRoot={(props) => <Link {...props} to="/history" />}>
                {t('allHistory')}
              </Button>
            )}
            {button}
          </>
        )
      }>
      {all.length === 0 ? (
        <Empty icon={IconBox} title={t('emptyTitle')} action={button}>
          {t('empty')}
        </Empty>
      ) : (
        <Stack>
          {all.length > 6 && (
            <TextInput
              type="search"
              aria-label={t('search')}
              placeholder={t('search')}
              leftSection={<IconSearch size={16} />}
              value={search}
              onChange={(event) => setSearch(event.currentTarget.value)}
              maw={360}
            />
          )}
          {found.length === 0 && <Text c="dimmed">{t('nothing', { search })}</Text>}
          <ChosenEnvironments chosen={chosen} all={found} choose={(ids) => setTicked(new Set(ids))} began={began} />
          <Tiles environments={found} label={t('title')} ticked={ticked} tick={tick} ask={ask} began={began} />
        </Stack>
      )}
      {asked && <EnvironmentDialogs environment={all.find((one) => one.id === asked.environment.id) ?? asked.environment} asked={asked.what} onClose={() => setAsked(undefined)} />}
      <AskForLosses begun={begun} become={become} />
      <CreateDialog opened={(create ?? false) && may('create_environment')} onClose={() => open(false)} />
    </Page>
  );
}

/** As many tiles as there are environments; only the rows in sight are drawn. */
interface TilesProps {
  environments: ListedEnvironment[];
  label: string;
  ticked: ReadonlySet<string>;
  tick: (id: string, on: boolean) => void;
  ask: (environment: ListedEnvironment, what: Asked) => void;
  began: (environment: ListedEnvironment) => Promise<void>;
}

function Tiles({ environments, label, ticked, tick, ask, began }: TilesProps) {
  const columns = useMatches({ base: 1, sm: 2, lg: 3 });
  const ground = useRef<HTMLDivElement>(null);
  const [top, setTop] = useState(0);
  useLayoutEffect(() => setTop(ground.current?.offsetTop ?? 0), [environments.length]);
  const rows = useWindowVirtualizer({ count: Math.ceil(environments.length / columns), estimateSize: () => 146, overscan: 6, scrollMargin: top });
  return (
    <div ref={ground} role="list" aria-label={label} className={classes.tiles} style={{ height: rows.getTotalSize() }}>
      {rows.getVirtualItems().map((row) => (
        <div key={row.key} ref={rows.measureElement} data-index={row.index} role="presentation" className={classes.row} style={{ gridTemplateColumns: `repeat(${columns}, minmax(0, 1fr))`, transform: `translateY(${row.start - top}px)` }}>
          {environments.slice(row.index * columns, (row.index + 1) * columns).map((one, index) => (
            <Tile key={one.id} environment={one} place={row.index * columns + index + 1} count={environments.length} ticked={ticked.has(one.id)} tick={tick} ask={ask} began={began} />
          ))}
        </div>
      ))}
    </div>
  );
}

/** Scrolling draws the new ones only. */
const Tile = memo(function Tile({ environment, place, count, ticked, tick, ask, began }: { environment: ListedEnvironment; place: number; count: number; ticked: boolean } & Pick<TilesProps, 'tick' | 'ask' | 'began'>) {
  const t = useTexts(messages);
  const c = useTexts(common);
  const { user } = useSession();
  return (
    <Card role="listitem" aria-posinset={place} aria-setsize={count} className={classes.tile}>
      <Group wrap="nowrap" align="flex-start" mb="xs" gap="xs">
        <Checkbox size="xs" mt={3} checked={ticked} aria-label={c('choose', { name: environment.name })} className={classes.above} onChange={(event) => tick(environment.id, event.currentTarget.checked)} />
        <Link to={opensAt(user.id, environment)} params={{ environmentId: environment.id }} className={classes.name}>
          {environment.name}
        </Link>
        <EnvironmentMenu environment={environment} label={t('moreOf', { name: environment.name })} deploys began={() => began(environment)} ask={(what) => ask(environment, what)} />
      </Group>
      {environment.description_text && (
        <Text size="sm" lineClamp={2} mb="xs">
          {environment.description_text}
        </Text>
      )}
      <Group gap="xs" mt="auto">
        <Status environment={environment} />
      </Group>
      <Text size="sm" c="dimmed" mt={6}>
        {t(hasServices(environment) ? 'kind_workflow' : 'kind_muranopl')} ·{' '}
        {environment.version === 0 ? t('never') : `${t('version')} ${environment.version}`} · <When at={environment.updated} />
      </Text>
    </Card>
  );
});

interface Existing {
  value: string;
  label: string;
  name: string;
  network: string;
  subnet: string;
}

/** Networks that an environment can join: a choice for each of their subnets. */
const existingNetworks = (networks: Catalog['JoinableNetwork'][]): Existing[] => networks.flatMap((one) => one.subnets.map((subnet) => ({ value: subnet.id, label: `${one.name}: ${subnet.cidr}`, name: one.name, network: one.id, subnet: subnet.id })));

/** `defaultNetworks` of an environment on an existing network; the document says no more than an object. */
const networksOf = ({ network, subnet }: Existing) =>
  ({
  environment: {
    '?': { id: [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, '0')).join(''), type: 'io.murano.resources.ExistingNeutronNetwork' },
    internalNetworkName: network,
    internalSubnetworkName: subnet,
  },
  flat: null,
}) as unknown as Record<string, never>;

export function CreateDialog({ opened, onClose }: { opened: boolean; onClose: () => void }) {
  const t = useTexts(messages);
  const c = useTexts(common);
  const explained = useExplained();
  const queries = useQueryClient();
  const [name, setName] = useState('');
  const [kind, setKind] = useState('muranopl');
  const [network, setNetwork] = useState('');
  // Where the back end lists none, the environment makes its own.
  const known = useQuery({ ...joinableQuery, enabled: opened });
  const networks = existingNetworks(known.data ?? []);
  // Where the operator has said which network every environment joins, nobody chooses.
  const fixed = useSession().settings.fixed_network;
  const joined = networks.find((one) => one.network === fixed || one.name === fixed);
  const lost = fixed !== '' && known.isFetched && !joined && kind === 'muranopl';
  const [problem, setProblem] = useState('');
  const [busy, setBusy] = useState(false);
  const navigate = useNavigate();
  const submit = async () => {
    if (!name.trim()) {
      setProblem(t('nameBlank'));
      return;
    }
    setBusy(true);
    try {
      const body = { name: name.trim() };
      const existing = fixed ? joined : networks.find((one) => one.value === network);
      const made = await data(kind === 'workflow' ? catalogApi.POST('/environments', { body }) : catalogApi.POST('/v1/environments', { body: existing ? { ...body, defaultNetworks: networksOf(existing) } : body }));
      await queries.invalidateQueries({ queryKey: environmentsQuery.queryKey });
      setName('');
      await navigate({ to: '/environments/$environmentId', params: { environmentId: made.id } });
    } catch (error) {
      setProblem(explained(error).text);
    } finally {
      setBusy(false);
    }
  };
  return (
    <FormDialog opened={opened} onClose={onClose} title={t('createTitle')}>
      <form
        noValidate
        onSubmit={(event) => {
          event.preventDefault();
          void submit();
        }}
      >
        <Stack>
          <TextInput
            data-autofocus
            label={t('name')}
            description={t('nameHint')}
            required
            maxLength={255}
            value={name}
            error={problem}
            onChange={(event) => {
              setName(event.currentTarget.value);
              setProblem('');
            }}
          />
          <Radio.Group label={t('kind')} value={kind} onChange={setKind}>
            <Stack gap="xs" mt="xs">
              <Radio value="muranopl" label={t('kind_muranopl')} description={t('kindHint_muranopl')} />
              <Radio value="workflow" label={t('kind_workflow')} description={t('kindHint_workflow')} />
            </Stack>
          </Radio.Group>
          {kind === 'muranopl' && fixed !== '' && <TextInput label={t('network')} description={t('networkFixed')} readOnly value={joined?.label ?? fixed} error={lost ? t('networkMissing', { name: fixed }) : undefined} />}
          {kind === 'muranopl' && fixed === '' && networks.length > 0 && (
            <Select label={t('network')} description={t('networkHint')} allowDeselect={false} data={[{ value: '', label: t('networkNew') }, ...networks.map(({ value, label }) => ({ value, label }))]} value={network} onChange={(chosen) => setNetwork(chosen ?? '')} />
          )}
          <Group justify="flex-end">
            <Button variant="default" onClick={onClose}>
              {c('cancel')}
            </Button>
            <Button type="submit" loading={busy} disabled={lost || (kind === 'muranopl' && fixed !== '' && !joined)}>
              {t('createAction')}
            </Button>
          </Group>
        </Stack>
      </form>
    </FormDialog>
  );
}
