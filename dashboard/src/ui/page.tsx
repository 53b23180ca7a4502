import { Alert, Anchor, Breadcrumbs, Button, Code, Container, Group, Stack, Text, ThemeIcon, Title } from '@mantine/core';
import { IconAlertTriangle, IconMapOff } from '@tabler/icons-react';
import { Link, useRouter, useRouterState } from '@tanstack/react-router';
import type { ComponentType, ReactNode } from 'react';
import { useTexts } from '~/i18n';
import { useExplained } from './failure';
import { messages } from './messages';
import { useTitle } from './title';
import classes from './page.module.css';

interface PageProps {
  title: string;
  /** Beside the title: a status. */
  aside?: ReactNode;
  lead?: ReactNode;
  /** Where this page is: pairs of text and address. */
  path?: [string, string][];
  actions?: ReactNode;
  children: ReactNode;
  wide?: boolean;
}

/** A page: its title (also the window's), where it is, its actions, and its content. */
export function Page({ title, aside, lead, path, actions, children, wide }: PageProps) {
  useTitle(title);
  return (
    <Container size={wide ? '100%' : 1240} px={0}>
      {path && (
        <Breadcrumbs mb="xs" separatorMargin={6} fz="sm">
          {path.map(([text, to]) => (
            <Anchor key={to} renderRoot={(props) => <Link {...props} to={to} />} fz="sm">
              {text}
            </Anchor>
          ))}
        </Breadcrumbs>
      )}
      <Group justify="space-between" align="flex-start" mb="lg" gap="md">
        <div className={classes.heading}>
          <Group gap="sm">
            <Title order={1} className={classes.title}>
              {title}
            </Title>
            {aside}
          </Group>
          {lead && (
            <Text c="dimmed" mt={4} maw={720} component="div" className={classes.lead}>
              {lead}
            </Text>
          )}
        </div>
        {actions && <Group gap="sm">{actions}</Group>}
      </Group>
      {children}
    </Container>
  );
}

interface EmptyProps {
  icon: ComponentType<{ size?: number; stroke?: number }>;
  title: string;
  children?: ReactNode;
  action?: ReactNode;
  /** Its title is the page's: nothing else is on it. */
  alone?: boolean;
}

/** Nothing is here yet, and what to do next. */
export function Empty({ icon: Icon, title, children, action, alone }: EmptyProps) {
  return (
    <Stack align="center" gap="xs" className={classes.empty}>
      <ThemeIcon size={56} radius="xl" variant="light" aria-hidden>
        <Icon size={28} stroke={1.5} />
      </ThemeIcon>
      <Title order={alone ? 1 : 2} size="h2" ta="center" mt="xs">
        {title}
      </Title>
      {children && (
        <Text c="dimmed" ta="center" maw={460} component="div">
          {children}
        </Text>
      )}
      {action && <Group mt="sm">{action}</Group>}
    </Stack>
  );
}

export function PageError({ error, reset }: { error: unknown; reset?: () => void }) {
  const t = useTexts(messages);
  const explained = useExplained();
  const router = useRouter();
  const { text, request } = explained(error);
  return (
    <Container size="sm" py="xl">
      <Alert color="red" icon={<IconAlertTriangle />} title={t('failedTitle')} variant="light">
        <Text size="sm">{text}</Text>
        {request && (
          <Text size="sm" c="dimmed" mt={4}>
            {request}
          </Text>
        )}
        <Button
          mt="md"
          size="xs"
          variant="default"
          onClick={() => {
            reset?.();
            void router.invalidate();
          }}
        >
          {t('retry')}
        </Button>
      </Alert>
    </Container>
  );
}

const PLACES = [
  ['home', '/environments'],
  ['homeCatalog', '/catalog'],
  ['homeHistory', '/history'],
] as const;

export function PageMissing() {
  const t = useTexts(messages);
  const address = useRouterState({ select: (state) => state.location.pathname });
  useTitle(t('missingTitle'));
  return (
    <Container size="sm" py="xl">
      <Empty
        alone
        icon={IconMapOff}
        title={t('missingTitle')}
        action={PLACES.map(([text, to]) => (
          <Button key={to} variant={text === 'home' ? 'filled' : 'default'} renderRoot={(props) => <Link {...props} to={to} />}>
            {t(text)}
          </Button>
        ))}
      >
        <Code style={{ overflowWrap: 'anywhere' }}>{address}</Code>
        <br />
        {t('missing')}
      </Empty>
    </Container>
  );
}
