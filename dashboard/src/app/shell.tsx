import { ActionIcon, AppShell, Avatar, Burger, Group, Menu, NavLink, ScrollArea, Text, UnstyledButton, useMantineColorScheme, type MantineColorScheme } from '@mantine/core';
import { useDisclosure } from '@mantine/hooks';
import { IconCheck, IconChevronDown, IconDeviceDesktop, IconLanguage, IconLogout, IconMoon, IconSun, IconUser } from '@tabler/icons-react';
import { useQueryClient } from '@tanstack/react-query';
import { Link, Outlet, useNavigate, useRouterState } from '@tanstack/react-router';
import { useEffect, useRef } from 'react';
import { useLive } from '~/api/live';
import { LANGUAGES, useLanguage, useTexts, type Language } from '~/i18n';
import { useFailure } from '~/ui/failure';
import { keepKeyboard } from '~/ui/keyboard';
import { useAhead } from './ahead';
import { messages } from './messages';
import { ENTRIES, type Entry } from './navigation';
import { forgetRecent } from './recent';
import { changeProject, signOut, useSession } from './session';
import classes from './shell.module.css';

export function Shell() {
  const t = useTexts(messages);
  const [opened, { toggle, close }] = useDisclosure();
  const path = useRouterState({ select: (state) => state.location.pathname });
  useEffect(close, [path, close]);
  // The link or button that led here is gone with its page; who has just come has pressed nothing.
  const came = useRef(path);
  useEffect(() => {
    if (came.current !== path) keepKeyboard();
    came.current = path;
  }, [path]);
  useLive();
  useAhead();
  const { isAdmin, may, settings } = useSession();
  return (
    <AppShell header={{ height: 56 }} navbar={{ width: 220, breakpoint: 'sm', collapsed: { mobile: !opened } }} padding={{ base: 'md', sm: 'xl' }}>
      <a className="skip" href="#content">
        {t('skip')}
      </a>
      <AppShell.Header className={classes.header}>
        <Group h="100%" px="md" justify="space-between" wrap="nowrap">
          <Group gap="sm" wrap="nowrap">
            <Burger opened={opened} onClick={toggle} hiddenFrom="sm" size="sm" aria-label={t('openNavigation')} />
            <Link to="/environments" className={classes.brand}>
              <img src="/dashboard/mark.svg" width={28} height={28} alt="" />
              <span>{settings.title}</span>
            </Link>
            <ProjectSwitcher />
          </Group>
          <Account />
        </Group>
      </AppShell.Header>
      <AppShell.Navbar className={classes.navbar} p="sm" aria-label={t('navigation')}>
        <AppShell.Section grow component={ScrollArea}>
          {ENTRIES.filter((entry) => (!entry.admin || isAdmin) && (!entry.rule || may(entry.rule))).map((entry) => (
            <Item key={entry.to} entry={entry} active={path === entry.to || path.startsWith(`${entry.to}/`)} />
          ))}
        </AppShell.Section>
      </AppShell.Navbar>
      <AppShell.Main id="content" tabIndex={-1} className={classes.main}>
        <Outlet />
      </AppShell.Main>
    </AppShell>
  );
}

function Item({ entry, active }: { entry: Entry; active: boolean }) {
  const t = useTexts(entry.messages);
  return (
    <NavLink
      renderRoot={(props) => <Link {...props} to={entry.to} aria-current={active ? 'page' : undefined} />}
      active={active}
      label={t(entry.text)}
      leftSection={<entry.icon size={18} stroke={1.7} />}
      className={classes.item}
    />
  );
}

function ProjectSwitcher() {
  const t = useTexts(messages);
  const { project, projects } = useSession();
  const queries = useQueryClient();
  const navigate = useNavigate();
  const failed = useFailure();
  const change = async (id: string) => {
    try {
      const session = await changeProject(id);
      // Nothing of the other project may be seen, or shine through, here.
      queries.clear();
      queries.setQueryData(['session'], session);
      await navigate({ to: '/environments', ignoreBlocker: true });
    } catch (error) {
      failed(error);
    }
  };
  if (projects.length < 2) {
    return (
      <Text size="sm" c="dimmed" visibleFrom="xs" truncate maw={200}>
        {project.name}
      </Text>
    );
  }
  return (
    <Menu position="bottom-start">
      <Menu.Target>
        <UnstyledButton className={classes.project} aria-label={`${t('project')}: ${project.name}`}>
          <Text size="sm" truncate maw={160}>
            {project.name}
          </Text>
          <IconChevronDown size={14} />
        </UnstyledButton>
      </Menu.Target>
      <Menu.Dropdown mah={420} style={{ overflowY: 'auto' }}>
        <Menu.Label>{t('projects')}</Menu.Label>
        {projects.map((one) => (
          <Menu.Item key={one.id} onClick={() => void change(one.id)} rightSection={one.id === project.id ? <IconCheck size={14} /> : null}>
            {one.name}
          </Menu.Item>
        ))}
      </Menu.Dropdown>
    </Menu>
  );
}

function Account() {
  const t = useTexts(messages);
  const { user } = useSession();
  const { language, setLanguage } = useLanguage();
  const { colorScheme, setColorScheme } = useMantineColorScheme();
  const queries = useQueryClient();
  const navigate = useNavigate();
  const leave = async () => {
    await signOut();
    forgetRecent();
    queries.clear();
    await navigate({ to: '/sign-in', ignoreBlocker: true });
  };
  const schemes: [MantineColorScheme, string, typeof IconSun][] = [
    ['light', t('light'), IconSun],
    ['dark', t('dark'), IconMoon],
    ['auto', t('automatic'), IconDeviceDesktop],
  ];
  return (
    <Menu position="bottom-end" width={220}>
      <Menu.Target>
        <ActionIcon variant="transparent" size="lg" radius="xl" aria-label={t('account', { name: user.name })}>
          <Avatar color="glass" variant="filled" size={32} alt="" aria-hidden>
            <IconUser size={18} />
          </Avatar>
        </ActionIcon>
      </Menu.Target>
      <Menu.Dropdown>
        <Menu.Label>{user.name}</Menu.Label>
        <Menu.Divider />
        <Menu.Label>{t('appearance')}</Menu.Label>
        {schemes.map(([scheme, text, Icon]) => (
          <Menu.Item key={scheme} leftSection={<Icon size={16} />} rightSection={colorScheme === scheme ? <IconCheck size={14} /> : null} onClick={() => setColorScheme(scheme)}>
            {text}
          </Menu.Item>
        ))}
        <Menu.Divider />
        <Menu.Label>{t('language')}</Menu.Label>
        {(Object.keys(LANGUAGES) as Language[]).map((one) => (
          <Menu.Item key={one} lang={one} leftSection={<IconLanguage size={16} />} rightSection={one === language ? <IconCheck size={14} /> : null} onClick={() => setLanguage(one)}>
            {LANGUAGES[one]}
          </Menu.Item>
        ))}
        <Menu.Divider />
        <Menu.Item leftSection={<IconLogout size={16} />} onClick={() => void leave()}>
          {t('signOut')}
        </Menu.Item>
      </Menu.Dropdown>
    </Menu>
  );
}
