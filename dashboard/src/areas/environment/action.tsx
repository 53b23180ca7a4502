import { Alert, Button, Checkbox, Code, Group, JsonInput, Loader, NumberInput, Select, Stack, Text, TextInput } from '@mantine/core';
import { IconDownload } from '@tabler/icons-react';
import { useQueryClient } from '@tanstack/react-query';
import { useEffect, useRef, useState } from 'react';
import { ApiError, catalogApi, data } from '~/api/client';
import { useTexts } from '~/i18n';
import { useExplained } from '~/ui/failure';
import { FormDialog } from '~/ui/leaving';
import { messages as common } from '~/ui/messages';
import { download, fileOf } from './download';
import { messages } from './messages';
import { refreshEnvironment, type Action } from './queries';

interface ArgumentSchema {
  type?: string | string[];
  title?: string;
  description?: string;
  enum?: unknown[];
  default?: unknown;
}

interface Result {
  isException?: boolean;
  result?: unknown;
}

/** Calls an action: its arguments by a form made from their schemas, its result shown and to download. */
export function ActionDialog({ environmentId, id, action, onClose }: { environmentId: string; id: string; action: Action; onClose: () => void }) {
  const t = useTexts(messages);
  const c = useTexts(common);
  const explained = useExplained();
  const queries = useQueryClient();
  const schemas = Object.entries((action.arguments ?? {}) as Record<string, ArgumentSchema>);
  const [values, setValues] = useState<Record<string, unknown>>(() => Object.fromEntries(schemas.flatMap(([name, one]) => (one.default === undefined ? [] : [[name, one.default]]))));
  const [state, setState] = useState<'asking' | 'waiting' | 'done'>('asking');
  const [problem, setProblem] = useState('');
  const [result, setResult] = useState<Result>({});
  const stopped = useRef(false);
  useEffect(() => () => void (stopped.current = true), []);

  const run = async () => {
    setState('waiting');
    setProblem('');
    try {
      const { task_id } = await data(catalogApi.POST('/v1/environments/{environment_id}/actions/{action_id}', { params: { path: { environment_id: environmentId, action_id: id } }, body: values as Record<string, never> }));
      void refreshEnvironment(queries, environmentId);
      while (!stopped.current) {
        const answer = await data(catalogApi.GET('/v1/environments/{environment_id}/actions/{task_id}', { params: { path: { environment_id: environmentId, task_id } } }));
        if (answer && typeof answer === 'object' && 'isException' in answer) {
          setResult(answer as Result);
          setState('done');
          break;
        }
        await new Promise((resolve) => setTimeout(resolve, 1_000));
      }
      void refreshEnvironment(queries, environmentId);
    } catch (error) {
      setProblem(explained(error).text);
      setState(error instanceof ApiError && error.status === 404 ? 'done' : 'asking');
    }
  };
  const file = state === 'done' ? fileOf(result) : null;
  return (
    <FormDialog opened onClose={onClose} title={action.title ?? action.name} size="lg">
      <Stack>
        {problem && (
          <Alert color="red" variant="light" role="alert">
            {problem}
          </Alert>
        )}
        {state === 'asking' && (
          <form
            onSubmit={(event) => {
              event.preventDefault();
              void run();
            }}
          >
            <Stack>
              {schemas.length === 0 && <Text size="sm">{t('noArguments')}</Text>}
              {schemas.map(([name, schema]) => (
                <Argument key={name} name={name} schema={schema} value={values[name]} onChange={(value) => setValues((before) => ({ ...before, [name]: value }))} />
              ))}
              <Group justify="flex-end">
                <Button variant="default" onClick={onClose}>
                  {c('cancel')}
                </Button>
                <Button type="submit">{t('runAction')}</Button>
              </Group>
            </Stack>
          </form>
        )}
        {state === 'waiting' && (
          <Group role="status">
            <Loader size="sm" aria-hidden />
            <Text size="sm">{t('waitingForResult')}</Text>
            <Button variant="default" size="xs" ms="auto" onClick={onClose}>
              {t('stopWaiting')}
            </Button>
          </Group>
        )}
        {state === 'done' && !problem && (
          <Stack>
            {result.isException && (
              <Alert color="red" variant="light" role="alert">
                {t('actionFailed')}
              </Alert>
            )}
            {file ? (
              <>
                <Code block tabIndex={0}>
                  {file.preview}
                </Code>
                <Group justify="flex-end">
                  <Button leftSection={<IconDownload size={16} />} onClick={() => download(file)}>
                    {t('download', { name: file.name })}
                  </Button>
                </Group>
              </>
            ) : (
              <Text size="sm">{t('noResult')}</Text>
            )}
          </Stack>
        )}
      </Stack>
    </FormDialog>
  );
}

function Argument({ name, schema, value, onChange }: { name: string; schema: ArgumentSchema; value: unknown; onChange: (value: unknown) => void }) {
  const kinds = Array.isArray(schema.type) ? schema.type : [schema.type ?? ''];
  const label = schema.title ?? name;
  const shared = { label, description: schema.description };
  if (schema.enum) {
    const texts = schema.enum.map((one) => String(one));
    return <Select {...shared} data={texts} value={value === undefined ? null : String(value)} onChange={(text) => onChange(text === null ? null : schema.enum?.[texts.indexOf(text)])} />;
  }
  if (kinds.includes('boolean')) return <Checkbox {...shared} checked={value === true} onChange={(event) => onChange(event.currentTarget.checked)} />;
  if (kinds.includes('integer') || kinds.includes('number')) return <NumberInput {...shared} allowDecimal={!kinds.includes('integer')} value={typeof value === 'number' ? value : ''} onChange={(given) => onChange(given === '' ? null : given)} />;
  if (kinds.includes('string')) return <TextInput {...shared} value={typeof value === 'string' ? value : ''} onChange={(event) => onChange(event.currentTarget.value)} />;
  return (
    <JsonInput
      {...shared}
      autosize
      minRows={2}
      defaultValue={value === undefined ? '' : JSON.stringify(value)}
      onChange={(text) => {
        try {
          onChange(JSON.parse(text));
        } catch {
          // Half typed: the last whole value stays.
        }
      }}
    />
  );
}
