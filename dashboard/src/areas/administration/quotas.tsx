import { Button, Group, NumberInput, Stack, Text } from '@mantine/core';
import { useQuery, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { useTexts } from '~/i18n';
import { useExplained } from '~/ui/failure';
import { FormDialog } from '~/ui/leaving';
import { messages as common } from '~/ui/messages';
import { messages } from './messages';
import { changeQuotas, quotasOf, type Account } from './queries';

/** The limits of a project: a number, nothing for the default, -1 for any amount. */
export function ProjectQuotas({ one, onClose }: { one: Account; onClose: () => void }) {
  const t = useTexts(messages);
  const c = useTexts(common);
  const explained = useExplained();
  const queries = useQueryClient();
  const { data: quotas } = useQuery(quotasOf(one.id));
  const [given, setGiven] = useState<Record<string, number | null>>({});
  const [problem, setProblem] = useState('');
  const submit = async () => {
    try {
      await changeQuotas(one.id, given);
      await queries.invalidateQueries({ queryKey: ['people', 'quotas'] });
      await queries.invalidateQueries({ queryKey: ['machines', 'quotas'] });
      onClose();
    } catch (error) {
      setProblem(explained(error).text);
    }
  };
  return (
    <FormDialog opened onClose={onClose} title={t('quotasOf', { name: one.name })}>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          void submit();
        }}
      >
        <Stack>
          <Text size="sm">{t('quotasHint')}</Text>
          {Object.entries(quotas ?? {}).map(([name, { used, limit, default: usual, unit }]) => (
            <NumberInput
              key={name}
              label={unit ? `${name} (${unit})` : name}
              description={t('quotaUsed', { used, usual })}
              min={-1}
              allowDecimal={false}
              value={given[name] === null ? '' : (given[name] ?? (limit === usual ? '' : limit))}
              placeholder={String(usual)}
              onChange={(value) => setGiven({ ...given, [name]: typeof value === 'number' ? value : null })}
            />
          ))}
          {problem && (
            <Text c="red" size="sm" role="alert">
              {problem}
            </Text>
          )}
          <Group justify="flex-end">
            <Button variant="default" onClick={onClose}>
              {c('cancel')}
            </Button>
            <Button type="submit">{t('save')}</Button>
          </Group>
        </Stack>
      </form>
    </FormDialog>
  );
}
