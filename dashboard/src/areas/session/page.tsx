import { Alert, Anchor, Button, Center, Loader, Paper, PasswordInput, Stack, Text, TextInput, Title } from '@mantine/core';
import { useDocumentTitle } from '@mantine/hooks';
import { useQueryClient } from '@tanstack/react-query';
import { useRouter, useSearch } from '@tanstack/react-router';
import { useEffect, useRef, useState } from 'react';
import { sessionQuery, signIn, signInByLink } from '~/app/session';
import { useTexts } from '~/i18n';
import { useExplained } from '~/ui/failure';
import { messages } from './messages';
import classes from './page.module.css';

/** Only addresses of the dashboard itself: never another site's. */
export function safeNext(next: string | undefined): string {
  return next && /^\/(?![/\\])/.test(next) && !next.startsWith('/sign-in') ? next : '/environments';
}

export function SignIn() {
  const t = useTexts(messages);
  useDocumentTitle(`${t('title')} · Vetro`);
  const { next, over } = useSearch({ from: '/sign-in' });
  const queries = useQueryClient();
  const router = useRouter();
  const explained = useExplained();
  const [user, setUser] = useState('');
  const [password, setPassword] = useState('');
  const [project, setProject] = useState('');
  const [withProject, setWithProject] = useState(false);
  const [busy, setBusy] = useState(false);
  const [problem, setProblem] = useState('');
  const [byLink, setByLink] = useState(false);
  const used = useRef('');

  const begin = async (session: ReturnType<typeof signIn>) => {
    setBusy(true);
    setProblem('');
    try {
      queries.clear();
      queries.setQueryData(sessionQuery.queryKey, await session);
      router.history.replace(`/dashboard${safeNext(next)}`);
    } catch (error) {
      setProblem(explained(error).text);
      setBusy(false);
      setByLink(false);
    }
  };
  useEffect(() => {
    const follow = () => {
      const code = window.location.hash.slice(1);
      if (!code || used.current === code) return;
      used.current = code;
      // The link is spent with its use; it does not stay in the address or in the history.
      window.history.replaceState(window.history.state, '', '/dashboard/sign-in');
      setByLink(true);
      void begin(signInByLink(code));
    };
    follow();
    window.addEventListener('hashchange', follow);
    return () => window.removeEventListener('hashchange', follow);
  });

  return (
    <main className={classes.ground}>
      <Paper className={classes.card} withBorder radius="lg" p="xl">
        <Stack gap="xs" mb="lg">
          <img src="/dashboard/mark.svg" width={44} height={44} alt="" />
          <Title order={1}>Vetro</Title>
          <Text c="dimmed">{t('lead')}</Text>
        </Stack>
        {over && !problem && (
          <Alert mb="md" variant="light">
            {t('over')}
          </Alert>
        )}
        {problem && (
          <Alert mb="md" color="red" variant="light" role="alert">
            {problem}
          </Alert>
        )}
        {busy && byLink ? (
          <Center py="xl">
            <Stack align="center">
              <Loader />
              <Text size="sm">{t('byLink')}</Text>
            </Stack>
          </Center>
        ) : (
          <form
            onSubmit={(event) => {
              event.preventDefault();
              void begin(signIn(user.trim(), password, project.trim()));
            }}
          >
            <Stack>
              <TextInput label={t('user')} name="user" autoComplete="username" autoFocus required value={user} onChange={(event) => setUser(event.currentTarget.value)} />
              <PasswordInput label={t('password')} name="password" autoComplete="current-password" required value={password} onChange={(event) => setPassword(event.currentTarget.value)} />
              {withProject ? (
                <TextInput label={t('project')} description={t('projectHint')} value={project} onChange={(event) => setProject(event.currentTarget.value)} />
              ) : (
                <Anchor component="button" type="button" size="sm" ta="left" onClick={() => setWithProject(true)}>
                  {t('moreFields')}
                </Anchor>
              )}
              <Button type="submit" loading={busy} fullWidth mt="xs">
                {t('signIn')}
              </Button>
            </Stack>
          </form>
        )}
      </Paper>
      <Text size="xs" c="dimmed" maw={380} mt="lg" ta="center">
        {t('noAccount')}
      </Text>
    </main>
  );
}
