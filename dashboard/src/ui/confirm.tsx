import { Button, Group, Stack, Text, TextInput } from '@mantine/core';
import { useState, type ReactNode } from 'react';
import { useTexts } from '~/i18n';
import { Dialog } from './dialog';
import { useFailure } from './failure';
import { messages } from './messages';

interface ConfirmProps {
  opened: boolean;
  onClose: () => void;
  title: string;
  children: ReactNode;
  /** What the button says: the verb. */
  action: string;
  /** What has to be typed before the button can be pressed. */
  typed?: string;
  run: () => Promise<unknown>;
}

/** Asks before something that cannot be undone. */
export function Confirm({ opened, onClose, title, children, action, typed, run }: ConfirmProps) {
  const t = useTexts(messages);
  const failed = useFailure();
  const [text, setText] = useState('');
  const [busy, setBusy] = useState(false);
  const close = () => {
    setText('');
    onClose();
  };
  const confirm = async () => {
    setBusy(true);
    try {
      await run();
      close();
    } catch (error) {
      failed(error);
    } finally {
      setBusy(false);
    }
  };
  return (
    <Dialog opened={opened} onClose={close} title={title}>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          void confirm();
        }}
      >
        <Stack>
          <Text size="sm" component="div">
            {children}
          </Text>
          {typed !== undefined && <TextInput data-autofocus label={t('typeName', { name: typed })} value={text} onChange={(event) => setText(event.currentTarget.value)} autoComplete="off" />}
          <Group justify="flex-end">
            <Button variant="default" onClick={close}>
              {t('cancel')}
            </Button>
            <Button type="submit" color="red" loading={busy} disabled={typed !== undefined && text !== typed}>
              {action}
            </Button>
          </Group>
        </Stack>
      </form>
    </Dialog>
  );
}
