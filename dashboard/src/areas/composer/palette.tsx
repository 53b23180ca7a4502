import { Group, Select, Stack, Text, TextInput } from '@mantine/core';
import { useDebouncedValue } from '@mantine/hooks';
import { IconPlus, IconSearch } from '@tabler/icons-react';
import { keepPreviousData, useInfiniteQuery, useQuery } from '@tanstack/react-query';
import { Link, useNavigate } from '@tanstack/react-router';
import { memo, useCallback, useState } from 'react';
import { Logo } from '~/areas/catalog/logo';
import { applicationsQuery, categoriesQuery } from '~/areas/catalog/queries';
import { useTexts } from '~/i18n';
import square from '~/ui/square.module.css';
import { messages } from './messages';
import classes from './palette.module.css';

const SHOWN = 12;
const DRAGGED = 'application/x-vetro-package';

/** Applications beside an environment's components: drag one onto the place below, or press its plus. */
export function Palette({ environmentId }: { environmentId: string }) {
  const t = useTexts(messages);
  const navigate = useNavigate();
  const [typed, setTyped] = useState('');
  const [search] = useDebouncedValue(typed.trim(), 180);
  const [over, setOver] = useState(false);
  const [category, setCategory] = useState<string | null>(null);
  const { data: categories = [] } = useQuery(categoriesQuery);
  const filled = categories.filter((one) => one.package_count > 0);
  // What is searched for is found in every category (A3).
  const found = useInfiniteQuery({ ...applicationsQuery(search ? { search } : { category: category ?? '' }), placeholderData: keepPreviousData });
  const packages = found.data?.pages[0]?.packages.slice(0, SHOWN) ?? [];
  const add = useCallback((packageId: string) => void navigate({ to: '/environments/$environmentId/add/$packageId', params: { environmentId, packageId } }), [navigate, environmentId]);
  return (
    <Stack component="section" aria-label={t('palette')} gap="sm">
      <Group justify="space-between">
        <Group gap="xs">
          <TextInput type="search" size="sm" aria-label={t('search')} placeholder={t('search')} leftSection={<IconSearch size={16} />} value={typed} onChange={(event) => setTyped(event.currentTarget.value)} />
          {filled.length > 0 && <Select size="sm" w={180} clearable disabled={search !== ''} aria-label={t('category')} placeholder={t('allCategories')} data={filled.map((one) => one.name)} value={category} onChange={setCategory} />}
        </Group>
        <Link to="/catalog" search={{ environment: environmentId }}>
          {t('all')}
        </Link>
      </Group>
      <ul className={classes.tiles}>
        {packages.map((one) => (
          <Tile key={one.id} id={one.id} name={one.name} add={add} />
        ))}
      </ul>
      {found.data && packages.length === 0 && (
        <Text size="sm" c="dimmed">
          {t('nothing')}
        </Text>
      )}
      {packages.length > 0 && <div
        className={classes.drop}
        data-over={over || undefined}
        data-testid="drop"
        onDragOver={(event) => {
          if (!event.dataTransfer.types.includes(DRAGGED)) return;
          event.preventDefault();
          setOver(true);
        }}
        onDragLeave={() => setOver(false)}
        onDrop={(event) => {
          event.preventDefault();
          setOver(false);
          const packageId = event.dataTransfer.getData(DRAGGED);
          if (packageId) add(packageId);
        }}
      >
        {t('drop')}
      </div>}
    </Stack>
  );
}

/** Plain elements that a key in the search does not draw again: the letter is painted first. */
const Tile = memo(function Tile({ id, name, add }: { id: string; name: string; add: (packageId: string) => void }) {
  const t = useTexts(messages);
  return (
    <li
      className={classes.tile}
      draggable
      onDragStart={(event) => {
        event.dataTransfer.setData(DRAGGED, id);
        event.dataTransfer.effectAllowed = 'copy';
      }}
    >
      <Logo id={id} name={name} size={28} />
      <span className={classes.name} title={name}>
        {name}
      </span>
      <button type="button" className={square.button} data-tinted aria-label={t('add', { name })} onClick={() => add(id)}>
        <IconPlus size={16} aria-hidden />
      </button>
    </li>
  );
});
