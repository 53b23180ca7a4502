import { Button, Checkbox, Group, Stack, TextInput } from '@mantine/core';
import { useState } from 'react';
import { useTexts } from '~/i18n';
import { useExplained } from '~/ui/failure';
import { FormDialog } from '~/ui/leaving';
import { messages as common } from '~/ui/messages';
import { messages } from './messages';

interface AskProps {
  title: string;
  action: string;
  name?: string;
  /** Ask whether every project may see it. */
  isPublic?: boolean;
  /** Ask in which region it is made. */
  region?: boolean;
  run: (name: string, isPublic: boolean, region: string) => Promise<unknown>;
  onClose: () => void;
}

/** Asks for a name. */
export function Ask({ title, action, name: given = '', isPublic, region: asksRegion = false, run, onClose }: AskProps) {
  const t = useTexts(messages);
  const c = useTexts(common);
  const explained = useExplained();
  const [name, setName] = useState(given);
  const [open, setOpen] = useState(isPublic ?? false);
  const [region, setRegion] = useState('');
  const [problem, setProblem] = useState('');
  const [busy, setBusy] = useState(false);
  const submit = async () => {
    if (!name.trim()) return setProblem(t('nameBlank'));
    setBusy(true);
    try {
      await run(name.trim(), open, region.trim());
      onClose();
    } catch (error) {
      setProblem(explained(error).text);
    } finally {
      setBusy(false);
    }
  };
  return (
    <FormDialog opened onClose={onClose} title={title}>
      <form
        noValidate
        onSubmit={(event) => {
          event.preventDefault();
          void submit();
        }}
      >
        <Stack>
          <TextInput data-autofocus label={t('name')} required maxLength={255} value={name} error={problem} onChange={(event) => setName(event.currentTarget.value)} />
          {isPublic !== undefined && <Checkbox label={t('publicHint')} checked={open} onChange={(event) => setOpen(event.currentTarget.checked)} />}
          {asksRegion && <TextInput label={t('region')} description={t('regionHint')} maxLength={255} value={region} onChange={(event) => setRegion(event.currentTarget.value)} />}
          <Group justify="flex-end">
            <Button variant="default" onClick={onClose}>
              {c('cancel')}
            </Button>
            <Button type="submit" loading={busy}>
              {action}
            </Button>
          </Group>
        </Stack>
      </form>
    </FormDialog>
  );
}
