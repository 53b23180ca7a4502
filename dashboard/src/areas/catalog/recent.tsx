import { Group, Text } from '@mantine/core';
import { useQueries } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import { useSession } from '~/app/session';
import { recentOf } from '~/app/recent';
import { useTexts } from '~/i18n';
import { Logo } from './logo';
import { messages } from './messages';
import { packageQuery } from './queries';
import classes from './recent.module.css';

/** The packages that were used or added last since signing in, as far as the project still sees them. */
export function Recent({ environment }: { environment: string | undefined }) {
  const t = useTexts(messages);
  const { project } = useSession();
  const found = useQueries({ queries: recentOf(project.id).map((id) => ({ ...packageQuery(id), retry: false })) });
  const shown = found.flatMap(({ data }) => (data && data.enabled ? [data] : []));
  if (shown.length === 0) return null;
  return (
    <Group gap="xs" component="section" aria-label={t('recent')}>
      <Text size="sm" c="dimmed">
        {t('recent')}
      </Text>
      {shown.map(({ id, name }) => (
        <Link key={id} to="/catalog/$packageId" params={{ packageId: id }} search={environment ? { environment } : {}} className={classes.one}>
          <Logo id={id} name={name} size={20} />
          {name}
        </Link>
      ))}
    </Group>
  );
}
