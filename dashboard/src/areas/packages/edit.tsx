import { Alert, Button, Checkbox, Group, MultiSelect, Stack, TagsInput, Textarea, TextInput } from '@mantine/core';
import { useQuery, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { ApiError } from '~/api/client';
import { useSession } from '~/app/session';
import { categoriesQuery } from '~/areas/catalog/queries';
import { useTexts } from '~/i18n';
import { useExplained } from '~/ui/failure';
import { FormDialog } from '~/ui/leaving';
import { messages as common } from '~/ui/messages';
import { messages } from './messages';
import { changePackage, refreshPackages, type Change, type Package } from './queries';

/** How a package is shown in the catalog, and under what it is found. */
export function EditDialog({ one, onClose }: { one: Package; onClose: () => void }) {
  const t = useTexts(messages);
  const c = useTexts(common);
  const explained = useExplained();
  const { may } = useSession();
  const queries = useQueryClient();
  const { data: categories = [] } = useQuery(categoriesQuery);
  const [name, setName] = useState(one.name);
  const [description, setDescription] = useState(one.description);
  const [tags, setTags] = useState(one.tags);
  const [chosen, setChosen] = useState(one.categories);
  const [enabled, setEnabled] = useState(one.enabled);
  const [isPublic, setPublic] = useState(one.is_public);
  const [usedBy, setUsedBy] = useState('');
  const [problem, setProblem] = useState('');
  const [busy, setBusy] = useState(false);
  const save = async () => {
    const changes: Change[] = [];
    if (name.trim() !== one.name) changes.push({ op: 'replace', path: '/name', value: name.trim() });
    if (description !== one.description) changes.push({ op: 'replace', path: '/description', value: description });
    if (tags.join('\0') !== one.tags.join('\0')) changes.push({ op: 'replace', path: '/tags', value: tags });
    if (chosen.join('\0') !== one.categories.join('\0')) changes.push({ op: 'replace', path: '/categories', value: chosen });
    if (enabled !== one.enabled) changes.push({ op: 'replace', path: '/enabled', value: enabled });
    if (isPublic !== one.is_public) changes.push({ op: 'replace', path: '/is_public', value: isPublic });
    if (changes.length === 0) return onClose();
    setBusy(true);
    try {
      await changePackage(one.id, changes, usedBy !== '');
      await refreshPackages(queries);
      onClose();
    } catch (error) {
      // Other projects use it: the second press means it.
      if (error instanceof ApiError && error.status === 409 && !usedBy && (!enabled || !isPublic)) setUsedBy(explained(error).text);
      else setProblem(explained(error).text);
    } finally {
      setBusy(false);
    }
  };
  return (
    <FormDialog opened onClose={onClose} title={t('editTitle', { name: one.name })} size="lg">
      <form
        onSubmit={(event) => {
          event.preventDefault();
          void save();
        }}
      >
        <Stack>
          <TextInput data-autofocus label={t('name')} required maxLength={80} value={name} error={problem} onChange={(event) => setName(event.currentTarget.value)} />
          <Textarea label={t('description')} autosize minRows={3} maxRows={12} value={description} onChange={(event) => setDescription(event.currentTarget.value)} />
          <TagsInput label={t('tags')} value={tags} onChange={setTags} />
          <MultiSelect label={t('categories')} description={t('categoriesHint')} data={categories.map((category) => category.name)} value={chosen} onChange={setChosen} searchable />
          <Group>
            <Checkbox label={t('enabled')} checked={enabled} onChange={(event) => setEnabled(event.currentTarget.checked)} />
            <Checkbox label={t('publicAll')} checked={isPublic} disabled={!may('publicize_package')} onChange={(event) => setPublic(event.currentTarget.checked)} />
          </Group>
          {usedBy && (
            <Alert color="yellow" variant="light" role="alert">
              {usedBy}
            </Alert>
          )}
          <Group justify="flex-end">
            <Button variant="default" onClick={onClose}>
              {c('cancel')}
            </Button>
            <Button type="submit" loading={busy}>
              {t(usedBy ? 'saveAnyway' : 'save')}
            </Button>
          </Group>
        </Stack>
      </form>
    </FormDialog>
  );
}
