import { ActionIcon, Badge, Button, CloseButton, Group, Menu, PasswordInput, Select, Stack, Switch, Tabs, Text, TextInput } from '@mantine/core';
import { IconDots, IconGauge, IconKey, IconPlus, IconTrash, IconUsersGroup } from '@tabler/icons-react';
import { useQuery, useQueryClient } from '@tanstack/react-query';
import { useNavigate, useSearch } from '@tanstack/react-router';
import { useState } from 'react';
import { useSession } from '~/app/session';
import { useTexts } from '~/i18n';
import { Confirm } from '~/ui/confirm';
import { useExplained, useFailure } from '~/ui/failure';
import { FormDialog } from '~/ui/leaving';
import { messages as common } from '~/ui/messages';
import { useOnce } from '~/ui/once';
import { Empty, Page, PageError } from '~/ui/page';
import { Rows } from '~/ui/rows';
import { TabRow } from '~/ui/tabs';
import { messages } from './messages';
import { assign, assignmentsQuery, change, createProject, createUser, projectsQuery, refreshPeople, remove, rolesQuery, usersQuery, type Account } from './queries';
import { ProjectQuotas } from './quotas';
import { TABS, type Tab } from './index';

type Asked = { what: 'create' } | { what: 'password' | 'roles' | 'quotas' | 'delete'; one: Account } | null;

/** Users, projects, and who may do what in which. For administrators. */
export function People() {
  const t = useTexts(messages);
  const { isAdmin } = useSession();
  const { tab = 'users' } = useSearch({ from: '/shell/people' });
  const navigate = useNavigate({ from: '/people' });
  return (
    <Page title={t('title')} lead={t('lead')}>
      {isAdmin ? (
        <Tabs value={tab} onChange={(value) => void navigate({ search: value === 'projects' ? { tab: 'projects' } : {} })} keepMounted={false}>
          <TabRow chosen={tab}>
            {TABS.map((one) => (
              <Tabs.Tab key={one} value={one}>
                {t(one)}
              </Tabs.Tab>
            ))}
          </TabRow>
          <Tabs.Panel value={tab} pt="lg">
            <Accounts key={tab} kind={tab} />
          </Tabs.Panel>
        </Tabs>
      ) : (
        <Empty icon={IconUsersGroup} title={t('onlyAdmins')}>
          {t('onlyAdminsText')}
        </Empty>
      )}
    </Page>
  );
}

function Accounts({ kind }: { kind: Tab }) {
  const t = useTexts(messages);
  const queries = useQueryClient();
  const failed = useFailure();
  const { user, project } = useSession();
  const shown = useQuery(kind === 'users' ? usersQuery : projectsQuery);
  const [asked, setAsked] = useState<Asked>(null);
  const close = () => setAsked(null);
  const refresh = () => refreshPeople(queries);
  if (shown.isLoadingError) return <PageError error={shown.error} reset={() => void shown.refetch()} />;
  const own = kind === 'users' ? user.id : project.id;
  const set = async (one: Account, enabled: boolean) => {
    try {
      await change(kind, one.id, { enabled });
      await refresh();
    } catch (error) {
      failed(error);
    }
  };
  return (
    <Stack>
      <Group>
        <Button leftSection={<IconPlus size={16} />} onClick={() => setAsked({ what: 'create' })}>
          {t(`new_${kind}`)}
        </Button>
      </Group>
      <Rows
        label={t(kind)}
        heads={[t('name'), t('enabled'), t('actions')]}
        rows={(shown.data ?? []).map((one) => ({
          key: one.id,
          cells: [
            one.name,
            <Switch key="enabled" checked={one.enabled} disabled={one.id === own} aria-label={t('enabledOf', { name: one.name })} onChange={(event) => void set(one, event.currentTarget.checked)} />,
            <Menu key="actions" position="bottom-end">
              <Menu.Target>
                <ActionIcon variant="subtle" aria-label={t('more', { name: one.name })}>
                  <IconDots size={18} />
                </ActionIcon>
              </Menu.Target>
              <Menu.Dropdown>
                <Menu.Item leftSection={<IconUsersGroup size={16} />} onClick={() => setAsked({ what: 'roles', one })}>
                  {t(kind === 'users' ? 'rolesOfUser' : 'members')}
                </Menu.Item>
                {kind === 'users' && (
                  <Menu.Item leftSection={<IconKey size={16} />} onClick={() => setAsked({ what: 'password', one })}>
                    {t('setPassword')}
                  </Menu.Item>
                )}
                {kind === 'projects' && (
                  <Menu.Item leftSection={<IconGauge size={16} />} onClick={() => setAsked({ what: 'quotas', one })}>
                    {t('quotas')}
                  </Menu.Item>
                )}
                <Menu.Item color="red" leftSection={<IconTrash size={16} />} disabled={one.id === own} onClick={() => setAsked({ what: 'delete', one })}>
                  {t('delete')}
                </Menu.Item>
              </Menu.Dropdown>
            </Menu>,
          ],
        }))}
      />
      {asked?.what === 'create' && <Create kind={kind} onClose={close} />}
      {asked?.what === 'password' && <Password one={asked.one} onClose={close} />}
      {asked?.what === 'quotas' && <ProjectQuotas one={asked.one} onClose={close} />}
      {asked?.what === 'roles' && <Roles kind={kind} one={asked.one} onClose={close} />}
      <Confirm
        opened={asked?.what === 'delete'}
        onClose={close}
        title={t('deleteTitle', { name: asked?.what === 'delete' ? asked.one.name : '' })}
        action={t('delete')}
        typed={asked?.what === 'delete' ? asked.one.name : ''}
        run={async () => {
          if (asked?.what !== 'delete') return;
          await remove(kind, asked.one.id);
          await refresh();
        }}
      >
        {t(`delete_${kind}`)}
      </Confirm>
    </Stack>
  );
}

function Create({ kind, onClose }: { kind: Tab; onClose: () => void }) {
  const t = useTexts(messages);
  const c = useTexts(common);
  const explained = useExplained();
  const queries = useQueryClient();
  const [name, setName] = useState('');
  const [password, setPassword] = useState('');
  const [problem, setProblem] = useState('');
  const submit = async () => {
    try {
      await (kind === 'users' ? createUser(name.trim(), password) : createProject(name.trim()));
      await refreshPeople(queries);
      onClose();
    } catch (error) {
      setProblem(explained(error).text);
    }
  };
  return (
    <FormDialog opened onClose={onClose} title={t(`new_${kind}`)}>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          void submit();
        }}
      >
        <Stack>
          <TextInput data-autofocus label={t('name')} required value={name} error={problem} maxLength={64} onChange={(event) => setName(event.currentTarget.value)} />
          {kind === 'users' && <PasswordInput label={t('password')} required autoComplete="new-password" value={password} onChange={(event) => setPassword(event.currentTarget.value)} />}
          <Group justify="flex-end">
            <Button variant="default" onClick={onClose}>
              {c('cancel')}
            </Button>
            <Button type="submit">{t('create')}</Button>
          </Group>
        </Stack>
      </form>
    </FormDialog>
  );
}

function Password({ one, onClose }: { one: Account; onClose: () => void }) {
  const t = useTexts(messages);
  const explained = useExplained();
  const [password, setPassword] = useState('');
  const [problem, setProblem] = useState('');
  const submit = async () => {
    try {
      await change('users', one.id, { password });
      onClose();
    } catch (error) {
      setProblem(explained(error).text);
    }
  };
  return (
    <FormDialog opened onClose={onClose} title={t('passwordOf', { name: one.name })}>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          void submit();
        }}
      >
        <Stack>
          <PasswordInput data-autofocus label={t('password')} description={t('passwordHint')} required autoComplete="new-password" value={password} error={problem} onChange={(event) => setPassword(event.currentTarget.value)} />
          <Group justify="flex-end">
            <Button type="submit">{t('setPassword')}</Button>
          </Group>
        </Stack>
      </form>
    </FormDialog>
  );
}

/** The roles of a user in projects, or of a project's users: give and take them. */
function Roles({ kind, one, onClose }: { kind: Tab; one: Account; onClose: () => void }) {
  const t = useTexts(messages);
  const queries = useQueryClient();
  const failed = useFailure();
  const { data: roles = [] } = useQuery(rolesQuery);
  const { data: users = [] } = useQuery(usersQuery);
  const { data: projects = [] } = useQuery(projectsQuery);
  const { data: assignments = [] } = useQuery(assignmentsQuery);
  const [role, setRole] = useState<string | null>(null);
  const [other, setOther] = useState<string | null>(null);
  const others = kind === 'users' ? projects : users;
  const nameOf = (all: { id: string; name: string }[], id: string) => all.find((each) => each.id === id)?.name ?? id;
  const held = assignments.flatMap(({ role: { id }, user, scope }) => {
    const [mine, theirs] = kind === 'users' ? [user?.id, scope.project?.id] : [scope.project?.id, user?.id];
    return mine === one.id && theirs ? [{ role: id, other: theirs }] : [];
  });
  const run = useOnce(async (method: 'PUT' | 'DELETE', theirs: string, wanted: string) => {
    try {
      await (kind === 'users' ? assign(method, theirs, one.id, wanted) : assign(method, one.id, theirs, wanted));
      await refreshPeople(queries);
    } catch (error) {
      failed(error);
    }
  });
  const chosen = role ?? roles.find((each) => each.name === 'member')?.id ?? null;
  return (
    <FormDialog opened onClose={onClose} title={t(kind === 'users' ? 'rolesOf' : 'membersOf', { name: one.name })} size="lg">
      <Stack>
        {held.length === 0 && (
          <Text size="sm" c="dimmed">
            {t(kind === 'users' ? 'noProjects' : 'noMembers')}
          </Text>
        )}
        {held.map((each) => (
          <Group key={each.other + each.role} justify="space-between">
            <Group gap="xs">
              <Text>{nameOf(others, each.other)}</Text>
              <Badge variant="light" tt="none" radius="sm">
                {nameOf(roles, each.role)}
              </Badge>
            </Group>
            <CloseButton aria-label={t('takeAway', { role: nameOf(roles, each.role), name: nameOf(others, each.other) })} onClick={() => run('DELETE', each.other, each.role)} />
          </Group>
        ))}
        <Group align="flex-end">
          <Select label={t(kind === 'users' ? 'project' : 'user')} searchable data={others.map(({ id, name }) => ({ value: id, label: name }))} value={other} onChange={setOther} />
          <Select label={t('role')} data={roles.map(({ id, name }) => ({ value: id, label: name }))} value={chosen} onChange={setRole} allowDeselect={false} />
          <Button disabled={!other || !chosen} onClick={() => other && chosen && run('PUT', other, chosen)}>
            {t('give')}
          </Button>
        </Group>
      </Stack>
    </FormDialog>
  );
}
