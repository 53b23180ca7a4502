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
import { LossDialog, lossesOf, type Loss } from './losses';
import { guarded, letGo } from './many';
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

/** Why an action failed, in the words of its exception. */
const messageOf = (result: unknown) => {
  const { message } = (result ?? {}) as { message?: unknown };
  return typeof message === 'string' ? message : '';
};

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
  const [notJson, setNotJson] = useState<ReadonlySet<string>>(new Set());
  const [result, setResult] = useState<Result>({});
  const stopped = useRef(false);
  useEffect(() => () => void (stopped.current = true), []);

  const [losses, setLosses] = useState<Loss[]>([]);
  const agreed = useRef<string[]>([]);
  const run = async (mayLose: string[] = []) => {
    const [wrong] = notJson;
    if (wrong !== undefined) return setProblem(t('notJson', { name: schemas.find(([name]) => name === wrong)?.[1].title ?? wrong }));
    setState('waiting');
    setProblem('');
    agreed.current = mayLose;
    try {
      const { task_id } = await data(catalogApi.POST('/v1/environments/{environment_id}/actions/{action_id}', { params: { path: { environment_id: environmentId, action_id: id }, query: guarded(mayLose) }, body: values as Record<string, never> }));
      void refreshEnvironment(queries, environmentId);
      while (!stopped.current) {
        const answer = await data(catalogApi.GET('/v1/environments/{environment_id}/actions/{task_id}', { params: { path: { environment_id: environmentId, task_id } } }));
        if (answer && typeof answer === 'object' && 'isException' in answer) {
          const lost = lossesOf((answer as Result).result);
          setLosses(lost);
          setResult(answer as Result);
          // What it would lose is asked; who leaves it as it is has the form again.
          setState(lost.length > 0 ? 'asking' : 'done');
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
  if (losses.length > 0) return <LossDialog losses={losses} onClose={() => setLosses([])} run={(keys) => (setLosses([]), run(letGo(agreed.current, keys)))} />;
  const file = state === 'done' ? fileOf(result) : null;
  const failure = result.isException ? messageOf(result.result) : '';
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
                <Argument key={name} name={name} schema={schema} value={values[name]} onChange={(value) => setValues((before) => ({ ...before, [name]: value }))} onJson={(fits) => setNotJson((was) => new Set(fits ? [...was].filter((one) => one !== name) : [...was, name]))} />
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
                {failure && (
                  <Text size="sm" mt={4} style={{ whiteSpace: 'pre-line', overflowWrap: 'anywhere' }}>
                    {failure}
                  </Text>
                )}
              </Alert>
            )}
            {file ? (
              <>
                {!failure && (
                  <Code block tabIndex={0}>
                    {file.preview}
                  </Code>
                )}
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

interface ArgumentProps {
  name: string;
  schema: ArgumentSchema;
  value: unknown;
  onChange: (value: unknown) => void;
  /** Whether the text of an argument that is written as JSON is JSON. */
  onJson: (fits: boolean) => void;
}

function Argument({ name, schema, value, onChange, onJson }: ArgumentProps) {
  const t = useTexts(messages);
  const kinds = Array.isArray(schema.type) ? schema.type : [schema.type ?? ''];
  const label = schema.title ?? name;
  // Whether an empty text will do is for the service to say.
  const needed = schema.type !== undefined && schema.default === undefined && !kinds.includes('null') && !kinds.includes('boolean');
  const shared = { label, description: schema.description, withAsterisk: needed };
  if (schema.enum) {
    const texts = schema.enum.map((one) => String(one));
    return <Select {...shared} data={texts} value={value === undefined ? null : String(value)} onChange={(text) => onChange(text === null ? null : schema.enum?.[texts.indexOf(text)])} />;
  }
  if (kinds.includes('boolean')) return <Checkbox label={label} description={schema.description} checked={value === true} onChange={(event) => onChange(event.currentTarget.checked)} />;
  if (kinds.includes('integer') || kinds.includes('number')) return <NumberInput {...shared} allowDecimal={!kinds.includes('integer')} value={typeof value === 'number' ? value : ''} onChange={(given) => onChange(given === '' ? null : given)} />;
  if (kinds.includes('string')) return <TextInput {...shared} value={typeof value === 'string' ? value : ''} onChange={(event) => onChange(event.currentTarget.value)} />;
  return (
    <JsonInput
      {...shared}
      autosize
      minRows={2}
      defaultValue={value === undefined ? '' : JSON.stringify(value)}
      validationError={t('notJson', { name: label })}
      onChange={(text) => {
        try {
          onChange(text.trim() ? JSON.parse(text) : undefined);
          onJson(true);
        } catch {
          onJson(false); // half typed: nothing is run with what was there before
        }
      }}
    />
  );
}
