import { Alert, Anchor, Button, Group, Modal, PasswordInput, Stack, TextInput } from '@mantine/core';
import { useEffect, useState } from 'react';
import type { DashboardSession } from '~/api/client';
import { changeProject, currentSession, signIn } from '~/app/session';
import { useTexts } from '~/i18n';
import { useExplained } from '~/ui/failure';
import { messages } from './messages';

interface AgainProps {
  /** Who was signed in. */
  before: DashboardSession;
  /** The same user, in the same project: the page goes on. */
  onSame: (session: DashboardSession) => void;
  /** Somebody else, or another project: nothing of the page may be seen. */
  onOther: (session: DashboardSession) => void;
  onLeave: () => void;
}

/** Signs in again over the page whose session is over: what somebody has typed there stays. */
export function SignInAgain({ before, onSame, onOther, onLeave }: AgainProps) {
  const t = useTexts(messages);
  const explained = useExplained();
  const [user, setUser] = useState(before.user.name);
  const [password, setPassword] = useState('');
  const [busy, setBusy] = useState(false);
  const [problem, setProblem] = useState('');
  const go = (session: DashboardSession) => (session.user.id === before.user.id && session.project.id === before.project.id ? onSame : onOther)(session);
  // Somebody signs in in another tab, and comes back to this one.
  useEffect(() => {
    const look = () => void currentSession().then(go, () => undefined);
    window.addEventListener('focus', look);
    return () => window.removeEventListener('focus', look);
  });
  const submit = async () => {
    setBusy(true);
    setProblem('');
    try {
      const session = await signIn(user.trim(), password);
      const elsewhere = session.user.id === before.user.id && session.project.id !== before.project.id && session.projects.some((one) => one.id === before.project.id);
      go(elsewhere ? await changeProject(before.project.id) : session);
    } catch (error) {
      setProblem(explained(error).text);
      setBusy(false);
    }
  };
  return (
    <Modal.Root opened onClose={() => undefined} closeOnEscape={false} closeOnClickOutside={false} centered zIndex={1000}>
      <Modal.Overlay backgroundOpacity={0.45} blur={2} />
      <Modal.Content radius="lg">
        <Group px="lg" pt="md" pb="xs">
          <Modal.Title fw={650}>{t('againTitle')}</Modal.Title>
        </Group>
        <Modal.Body px="lg">
          <form
            onSubmit={(event) => {
              event.preventDefault();
              void submit();
            }}
          >
            <Stack>
              <Alert variant="light">{t('again')}</Alert>
              {problem && (
                <Alert color="red" variant="light" role="alert">
                  {problem}
                </Alert>
              )}
              <TextInput label={t('user')} name="user" autoComplete="username" required value={user} onChange={(event) => setUser(event.currentTarget.value)} />
              <PasswordInput data-autofocus label={t('password')} name="password" autoComplete="current-password" required value={password} onChange={(event) => setPassword(event.currentTarget.value)} />
              <Group justify="space-between">
                <Anchor component="button" type="button" size="sm" onClick={onLeave}>
                  {t('againLeave')}
                </Anchor>
                <Button type="submit" loading={busy}>
                  {t('signIn')}
                </Button>
              </Group>
            </Stack>
          </form>
        </Modal.Body>
      </Modal.Content>
    </Modal.Root>
  );
}
