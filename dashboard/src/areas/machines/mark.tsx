import { Button, Group, Select, Stack, Text, TextInput } from '@mantine/core';
import { useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { call } from '~/api/client';
import { useSession } from '~/app/session';
import { useTexts } from '~/i18n';
import { useExplained } from '~/ui/failure';
import { FormDialog } from '~/ui/leaving';
import { messages as common } from '~/ui/messages';
import { messages } from './messages';
import { imagesQuery, type Image } from './queries';

const TAG = 'murano_image_info';
/** Types that forms ask for; any other can be typed. */
const TYPES = ['linux', 'windows.2012', 'cirros.demo'];
const OTHER = 'custom';

/** What forms show of an image: nothing without a mark; `broken`: its mark cannot be read. */
export function markOf(image: Image): { title: string; type: string; broken: boolean } | null {
  const tags = image.tags as Record<string, unknown> | null | undefined;
  const text = tags?.[TAG];
  if (text === undefined) return null;
  try {
    const { title, type } = JSON.parse(String(text)) as Record<string, unknown>;
    return { title: typeof title === 'string' ? title : '', type: typeof type === 'string' ? type : '', broken: false };
  } catch {
    return { title: '', type: '', broken: true };
  }
}

/** Write an image's mark, or take it away. */
const write = (image: Image, mark: { title: string; type: string } | null) => call('POST', `/compute/images/${encodeURIComponent(image.uuid)}/tags`, { tags: { [TAG]: mark && JSON.stringify(mark) }, replace: true });

/** How an image is called in forms, and for which fields it is offered. */
export function MarkDialog({ image, images, onClose }: { image: Image; images: Image[]; onClose: () => void }) {
  const t = useTexts(messages);
  const c = useTexts(common);
  const explained = useExplained();
  const queries = useQueryClient();
  const { may } = useSession();
  const known = markOf(image);
  const [title, setTitle] = useState(known?.title || image.name);
  const [type, setType] = useState(known?.type && !TYPES.includes(known.type) ? OTHER : known?.type || 'linux');
  const [other, setOther] = useState(known?.type && !TYPES.includes(known.type) ? known.type : '');
  const [problem, setProblem] = useState('');
  const [busy, setBusy] = useState(false);
  const save = async (mark: { title: string; type: string } | null) => {
    setBusy(true);
    setProblem('');
    try {
      await write(image, mark);
      await queries.invalidateQueries({ queryKey: imagesQuery.queryKey });
      onClose();
    } catch (error) {
      setProblem(explained(error).text);
    } finally {
      setBusy(false);
    }
  };
  const submit = () => {
    const wanted = { title: title.trim(), type: type === OTHER ? other.trim() : type };
    if (!wanted.title || !wanted.type) return setProblem(t('markBlank'));
    const taken = images.find((one) => one.uuid !== image.uuid && markOf(one)?.title === wanted.title);
    if (taken) return setProblem(t('markTaken', { name: taken.name }));
    void save(wanted);
  };
  return (
    <FormDialog opened onClose={onClose} title={t('markTitle', { name: image.name })}>
      <form
        noValidate
        onSubmit={(event) => {
          event.preventDefault();
          submit();
        }}
      >
        <Stack>
          <Text size="sm" c="dimmed">
            {t('markText')}
          </Text>
          <TextInput data-autofocus label={t('markName')} required maxLength={80} value={title} error={problem} onChange={(event) => setTitle(event.currentTarget.value)} />
          <Select label={t('markType')} allowDeselect={false} data={[...TYPES, { value: OTHER, label: t('markOther') }]} value={type} onChange={(chosen) => chosen && setType(chosen)} />
          {type === OTHER && <TextInput label={t('markOther')} required maxLength={80} value={other} onChange={(event) => setOther(event.currentTarget.value)} />}
          <Group justify="space-between">
            {known && may('remove_image_metadata') ? (
              <Button variant="subtle" color="red" disabled={busy} onClick={() => void save(null)}>
                {t('markRemove')}
              </Button>
            ) : (
              <span />
            )}
            <Group>
              <Button variant="default" onClick={onClose}>
                {c('cancel')}
              </Button>
              <Button type="submit" loading={busy} disabled={!may('mark_image')}>
                {t('markSave')}
              </Button>
            </Group>
          </Group>
        </Stack>
      </form>
    </FormDialog>
  );
}
