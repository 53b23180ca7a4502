import { Button, CloseButton, Group, Stack, Text, TextInput } from '@mantine/core';
import { useQuery, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { catalogApi } from '~/api/client';
import { useSession } from '~/app/session';
import { categoriesQuery } from '~/areas/catalog/queries';
import { useTexts } from '~/i18n';
import { FormDialog } from '~/ui/leaving';
import { useOnce } from '~/ui/once';
import { useExplained } from '~/ui/failure';
import { messages } from './messages';

/** The categories of the catalog: add, and delete those without packages. */
export function Categories({ onClose }: { onClose: () => void }) {
  const t = useTexts(messages);
  const explained = useExplained();
  const { may } = useSession();
  const queries = useQueryClient();
  const { data: categories } = useQuery(categoriesQuery);
  const [name, setName] = useState('');
  const [problem, setProblem] = useState('');
  const run = useOnce(async (what: () => Promise<unknown>) => {
    try {
      await what();
      setName('');
      setProblem('');
      await queries.invalidateQueries({ queryKey: categoriesQuery.queryKey });
    } catch (error) {
      setProblem(explained(error).text);
    }
  });
  return (
    <FormDialog opened onClose={onClose} title={t('categories')}>
      <Stack>
        {categories?.length === 0 && <Text c="dimmed">{t('noCategories')}</Text>}
        {categories?.map((one) => (
          <Group key={one.id} justify="space-between">
            <Text>
              {one.name}{' '}
              <Text span size="sm" c="dimmed">
                {t('categoryCount', { count: one.package_count })}
              </Text>
            </Text>
            {one.package_count === 0 && may('delete_category') && (
              <CloseButton aria-label={t('deleteCategory', { name: one.name })} onClick={() => run(() => catalogApi.DELETE('/v1/catalog/categories/{category_id}', { params: { path: { category_id: one.id } } }))} />
            )}
          </Group>
        ))}
        {may('add_category') && <form
          onSubmit={(event) => {
            event.preventDefault();
            run(() => catalogApi.POST('/v1/catalog/categories', { body: { name: name.trim() } }));
          }}
        >
          <Group align="flex-end">
            <TextInput flex={1} data-autofocus label={t('newCategory')} description={t('inUse')} required maxLength={80} value={name} error={problem} onChange={(event) => setName(event.currentTarget.value)} />
            <Button type="submit">{t('addCategory')}</Button>
          </Group>
        </form>}
      </Stack>
    </FormDialog>
  );
}
